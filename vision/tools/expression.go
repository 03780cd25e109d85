package tools

import (
	"math"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Some systems evaluate a model's text as a Python expression. Here is the part of Python that a box needs, which can
// run nothing: numbers, texts, lists, tuples, None, True, False, signs and + - * / with brackets. A name is a
// NameError as there, all else a SyntaxError.

// A tuple is a list in round brackets, which a box must not be.
type tuple []any

// deepestExpression is how far brackets may be nested.
const deepestExpression = 100

func expression(text string) (any, error) {
	e := &expr{text: strings.TrimLeft(text, " \t")}
	v, err := e.list(0, 0)
	if err != nil {
		return nil, err
	}
	if e.blanks(); e.at < len(e.text) {
		return nil, notPython()
	}
	return v, nil
}

func notPython() *Refusal { return refuse(BadSyntax, "SyntaxError", "invalid syntax") }

type expr struct {
	text string
	at   int
}

func (e *expr) blanks() {
	for e.at < len(e.text) && strings.IndexByte(" \t\n\r\f", e.text[e.at]) >= 0 {
		e.at++
	}
}

func (e *expr) peek() byte {
	if e.blanks(); e.at < len(e.text) {
		return e.text[e.at]
	}
	return 0
}

func (e *expr) take(c byte) bool {
	if e.peek() != c || c == 0 {
		return false
	}
	e.at++
	return true
}

// list reads values up to a closing bracket (0: the end). Without a comma it is the value.
func (e *expr) list(end byte, depth int) (any, error) {
	if depth > deepestExpression {
		return nil, notPython()
	}
	all := tuple{}
	comma := false
	for end == 0 || e.peek() != end {
		v, err := e.sum(depth)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
		if !e.take(',') {
			break
		}
		if comma = true; e.peek() == end {
			break
		}
	}
	if end != 0 && !e.take(end) {
		return nil, notPython()
	}
	switch {
	case end == ']':
		return []any(all), nil
	case len(all) == 1 && !comma:
		return all[0], nil
	}
	return all, nil
}

func (e *expr) sum(depth int) (any, error) {
	return e.chain(depth, "+-", e.product)
}

func (e *expr) product(depth int) (any, error) {
	return e.chain(depth, "*/", e.signed)
}

// chain is values of the next kind with signs between, from left to right.
func (e *expr) chain(depth int, signs string, next func(int) (any, error)) (any, error) {
	v, err := next(depth)
	for err == nil {
		sign := e.peek()
		if sign == 0 || strings.IndexByte(signs, sign) < 0 {
			return v, nil
		}
		e.at++
		var w any
		if w, err = next(depth); err == nil {
			v, err = calculated(v, sign, w)
		}
	}
	return nil, err
}

func calculated(v any, sign byte, w any) (any, error) {
	a, okA := v.(pytext.Number)
	b, okB := w.(pytext.Number)
	if !okA || !okB {
		return nil, refuse(WrongType, "TypeError", "unsupported operand type(s) for %c: '%s' and '%s'", sign, typeName(v), typeName(w))
	}
	var x float64
	switch sign {
	case '+':
		x = a.Value + b.Value
	case '-':
		x = a.Value - b.Value
	case '*':
		x = a.Value * b.Value
	default:
		if b.Value == 0 {
			return nil, refuse(BadValue, "ZeroDivisionError", "division by zero")
		}
		return pytext.NewFloat(a.Value / b.Value), nil
	}
	if !a.IsFloat && !b.IsFloat && math.Abs(x) < 1<<53 {
		return pytext.NewInt(int(x)), nil
	}
	return pytext.NewFloat(x), nil
}

func typeName(v any) string {
	if _, ok := v.(tuple); ok {
		return "tuple"
	}
	return pytext.TypeName(v)
}

func (e *expr) signed(depth int) (any, error) {
	negative := false
	for e.peek() == '-' || e.peek() == '+' {
		negative = negative != (e.text[e.at] == '-')
		e.at++
	}
	v, err := e.value(depth)
	if !negative || err != nil {
		return v, err
	}
	return calculated(pytext.NewInt(-1), '*', v)
}

func (e *expr) value(depth int) (any, error) {
	switch c := e.peek(); {
	case e.take('['):
		return e.list(']', depth+1)
	case e.take('('):
		return e.list(')', depth+1)
	case c == '"' || c == '\'':
		return e.quoted(c)
	case c == '.' || c >= '0' && c <= '9':
		return e.number()
	}
	return e.name()
}

func (e *expr) quoted(quote byte) (any, error) {
	e.at++
	inside, _, ok := strings.Cut(e.text[e.at:], string(quote))
	if !ok || strings.ContainsAny(inside, "\\\n") {
		return nil, notPython()
	}
	e.at += len(inside) + 1
	return inside, nil
}

func (e *expr) number() (any, error) {
	from := e.at
	for e.at < len(e.text) && (isWord(e.text[e.at]) || e.text[e.at] == '.' || signOfExponent(e.text[from:e.at], e.text[e.at])) {
		e.at++
	}
	text := e.text[from:e.at]
	if strings.Trim(text, "0123456789_") == "" {
		if len(text) > 1 && text[0] == '0' && strings.Trim(text, "0_") != "" || strings.Contains(text, "__") || strings.HasSuffix(text, "_") {
			return nil, notPython()
		}
		if n, err := strconv.Atoi(strings.ReplaceAll(text, "_", "")); err == nil {
			return pytext.NewInt(n), nil
		}
	}
	x, ok := pytext.Float(text)
	if !ok {
		return nil, notPython()
	}
	return pytext.NewFloat(x), nil
}

// signOfExponent reports whether c is the sign in 1e-3.
func signOfExponent(before string, c byte) bool {
	return (c == '-' || c == '+') && (strings.HasSuffix(before, "e") || strings.HasSuffix(before, "E"))
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func (e *expr) name() (any, error) {
	from := e.at
	for e.at < len(e.text) && isWord(e.text[e.at]) {
		e.at++
	}
	switch name := e.text[from:e.at]; name {
	case "":
		return nil, notPython()
	case "None":
		return nil, nil
	case "True":
		return true, nil
	case "False":
		return false, nil
	default:
		return nil, refuse(BadValue, "NameError", "name '%s' is not defined", name)
	}
}
