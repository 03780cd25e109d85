package elsewhere

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/outside/regular"
)

// Python's files of settings, as ml_collections writes them: functions that set config.a.b = VALUE. Nothing runs.
// Values are literals, names of earlier ones, arithmetic, lists, dicts, os.path.join, and other functions of settings.
// Settings of other statements and of blocks are of unknown value, and reported. lines.go has statements.

const (
	mostFile  = 1 << 20
	mostDepth = 20 // of calls, of tables in each other, of files
	mostText  = 64 << 10
	mostLines = 100000 // that are read in all, of files and functions
)

// A place is one of a file.
type place struct {
	file         string
	line, column int // from 1
}

func (p place) mistake(problem, hint string) error {
	return config.Mistakes{{File: p.file, Line: p.line, Column: p.column, Problem: problem, Hint: hint}}
}

// A table is a ConfigDict, or a dict.
type table struct {
	names []string
	of    map[string]any
	at    map[string]place
}

func newTable() *table { return &table{of: map[string]any{}, at: map[string]place{}} }

func (t *table) set(name string, v any, at place) {
	if _, ok := t.of[name]; !ok {
		t.names = append(t.names, name)
	}
	t.of[name], t.at[name] = v, at
}

// A module is a file.
type module struct {
	path      string
	functions map[string]function
	order     []string
	names     map[string]any
}

type function struct {
	module *module
	at     place
	lines  []logical
}

// python reads files.
type python struct {
	unread []string
	left   int
	loads  int // of files
	cards  any // gpu_number of the function that ended last and has one
}

// load reads a file's functions and names.
func (p *python) load(path string) (*module, error) {
	if p.loads++; p.loads > mostDepth {
		return nil, fmt.Errorf("%s: too many files are loaded", path)
	}
	text, err := regular.Read(path, mostFile)
	if err != nil {
		return nil, err
	}
	m := &module{path: path, functions: map[string]function{}, names: map[string]any{"__file__": path}}
	_, _, err = p.body(m, nil, statements(string(text)), 0)
	return m, err
}

func (m *module) at(s logical) place { return place{m.path, s.at, s.indent + 1} }

func (p *python) leaves(m *module, s logical, err error) {
	p.unread = append(p.unread, fmt.Sprintf("%s:%d: %.60s: %v", filepath.Base(m.path), s.at, s.text, err))
}

// run is a function's result.
func (p *python) run(f function, depth int) (any, error) {
	if depth > mostDepth {
		return nil, f.at.mistake("functions call each other too deeply", "")
	}
	locals := map[string]any{}
	v, _, err := p.body(f.module, locals, f.lines, depth)
	if cards, ok := locals["gpu_number"]; ok {
		p.cards = cards
	}
	return v, err
}

// body reads the statements of a function up to its return; without locals, a file's.
func (p *python) body(m *module, locals map[string]any, all []logical, depth int) (any, bool, error) {
	names := locals
	if locals == nil {
		names = m.names
	}
	for i, end := 0, 0; i < len(all); i = end {
		s := all[i]
		for end = i + 1; end < len(all) && all[end].indent > s.indent; end++ {
		}
		if p.left--; p.left < 0 {
			return nil, false, m.at(s).mistake("the files are too long", "")
		}
		if name, args, ok := s.defines(); ok && locals == nil {
			delete(m.functions, name)
			if args == "" {
				m.functions[name] = function{m, m.at(s), all[i+1 : end]}
				m.order = append(slices.DeleteFunc(m.order, func(other string) bool { return other == name }), name)
			}
			continue
		}
		if end > i+1 {
			p.leaves(m, s, errors.New("a block, which is not run"))
			if err := p.skip(m, names, all[i:end], locals != nil); err != nil {
				return nil, false, err
			}
			continue
		}
		v, returned, err := p.statement(m, names, s, depth)
		if err != nil {
			p.leaves(m, s, err)
		}
		if returned {
			return v, true, nil
		}
		if errors.Is(err, errOther) {
			if err := p.skip(m, names, all[i:end], locals != nil); err != nil {
				return nil, false, err
			}
		} else if err != nil {
			for _, t := range arguments(s.text) {
				p.spoil(m, names, t, m.at(s))
			}
		}
	}
	return nil, false, nil
}

// skip makes the targets of unread statements unknown. A return among those of a function is an error.
func (p *python) skip(m *module, names map[string]any, all []logical, function bool) error {
	own := math.MaxInt // the indent of a function among them
	for _, s := range all {
		if s.indent <= own {
			own = math.MaxInt
		}
		if name, _, ok := s.defines(); ok {
			delete(m.functions, name)
			own = min(own, s.indent)
		}
		for _, text := range s.parts() {
			if name, _ := word(text); name == "return" && function && own == math.MaxInt {
				return m.at(s).mistake("a return in a block: what the function returns is not known",
					"write its settings out, without the block")
			}
			for _, t := range targets(text) {
				p.spoil(m, names, t, m.at(s))
			}
		}
	}
	return nil
}

// spoil makes a name's value unknown; of a table whose key is not known, all values.
func (p *python) spoil(m *module, names map[string]any, t target, at place) {
	parts := strings.Split(t.name, ".")
	v, ok := names[parts[0]]
	if !ok {
		v = m.names[parts[0]]
	}
	if len(parts) == 1 && !t.inside {
		names[parts[0]] = unknown{}
		return
	}
	for i, part := range parts[1:] {
		of, _ := v.(*table)
		if of == nil {
			return
		}
		if i == len(parts)-2 && !t.inside {
			of.set(part, unknown{}, at)
			return
		}
		v = of.of[part]
	}
	if of, _ := v.(*table); of != nil {
		of.spoil(at, map[*table]bool{})
	}
}

// spoil makes all values of a table unknown, and of tables in it, each of which is seen once.
func (t *table) spoil(at place, seen map[*table]bool) {
	seen[t] = true
	for _, name := range t.names {
		if inner, ok := t.of[name].(*table); !ok {
			t.set(name, unknown{}, at)
		} else if !seen[inner] {
			inner.spoil(at, seen)
		}
	}
}

var errOther = errors.New("neither an assignment nor a return")

// statement reads one.
func (p *python) statement(m *module, names map[string]any, s logical, depth int) (v any, returned bool, err error) {
	if len(s.text) > mostText {
		return nil, false, fmt.Errorf("%w that is read: it is too long", errOther)
	}
	first, rest := word(s.text)
	idle := slices.Contains([]string{"assert", "import", "from", "pass", "print"}, first)
	switch {
	case idle, strings.IndexByte(`"'`, s.text[0]) >= 0:
		return nil, false, nil
	case first == "return":
		v, err := (&expression{python: p, module: m, names: names, depth: depth, place: m.at(s), text: rest}).whole()
		if err != nil {
			v = unknown{}
		}
		return v, true, err
	}
	e := &expression{python: p, module: m, names: names, depth: depth, place: m.at(s), text: s.text}
	var all []string
	var sign string
	for sign == "" {
		name := e.path()
		if name == "" {
			break
		}
		sign = e.sign("//=", "+=", "-=", "*=", "/=", "%=")
		if sign == "" && (!e.takes("=") || strings.HasPrefix(e.rest(), "=")) {
			break
		}
		all = append(all, name)
		e.from = e.at
	}
	if len(all) == 0 { // or a call of a function here
		e.at = 0
		if _, err := e.whole(); err != nil || !strings.HasSuffix(s.text, ")") {
			return nil, false, errOther
		}
		return nil, false, nil
	}
	e.at = e.from
	if v, err = e.whole(); err == nil && sign != "" {
		var old any
		if old, err = e.value(all[0]); err == nil {
			v, err = calculated(old, strings.TrimSuffix(sign, "="), v)
		}
	}
	if err != nil {
		v = unknown{}
	}
	for _, name := range all {
		parts := strings.Split(name, ".")
		if len(parts) == 1 {
			names[name] = v
			continue
		}
		first, local := names[parts[0]]
		if !local {
			first = m.names[parts[0]]
		}
		at, ok := first.(*table)
		for _, part := range parts[1 : len(parts)-1] {
			if ok {
				at, ok = at.of[part].(*table)
			}
		}
		if !ok {
			p.spoil(m, names, target{name, false}, m.at(s))
			err = fmt.Errorf("%s is no table", strings.Join(parts[:len(parts)-1], "."))
			continue
		}
		at.set(parts[len(parts)-1], v, m.at(s))
	}
	return nil, false, err
}

// unknown is a value that could not be read.
type unknown struct{}

// An expression is read by precedence.
type expression struct {
	*python
	module   *module
	names    map[string]any
	depth    int
	place    place // of its statement
	text     string
	at, from int
}

func (e *expression) rest() string { return e.text[e.at:] }

func (e *expression) space() {
	for e.at < len(e.text) && strings.IndexByte(" \t\r\n\f", e.text[e.at]) >= 0 {
		e.at++
	}
}

func (e *expression) takes(word string) bool {
	e.space()
	if !strings.HasPrefix(e.rest(), word) {
		return false
	}
	if after := e.rest()[len(word):]; isName(word[len(word)-1]) && after != "" && isName(after[0]) {
		return false
	}
	e.at += len(word)
	return true
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// path is a dotted name; NAME["key"] is NAME.key.
func (e *expression) path() string {
	e.space()
	m := dotted.FindString(e.rest())
	e.at += len(m)
	return plainPath(m)
}

func (e *expression) whole() (any, error) {
	v, err := e.choice()
	if err != nil {
		return nil, err
	}
	if e.space(); e.rest() != "" {
		return nil, fmt.Errorf("not read from %.20q on", e.rest())
	}
	return v, nil
}

// choice is a value, or A if CONDITION else B.
func (e *expression) choice() (any, error) {
	v, err := e.compared()
	if err != nil || !e.takes("if") {
		return v, err
	}
	condition, err := e.compared()
	if err != nil {
		return nil, err
	}
	if !e.takes("else") {
		return nil, errors.New("an if without else")
	}
	other, err := e.choice()
	if truth, ok := condition.(bool); err != nil || !ok {
		return nil, errors.Join(err, errOther)
	} else if truth {
		return v, nil
	}
	return other, nil
}

func (e *expression) compared() (any, error) {
	v, err := e.sum()
	if err != nil {
		return nil, err
	}
	for _, sign := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if !e.takes(sign) {
			continue
		}
		w, err := e.sum()
		if err != nil {
			return nil, err
		}
		a, ok := number(v)
		b, also := number(w)
		if !ok || !also {
			_, text := v.(string)
			_, truth := v.(bool)
			if sign[1:] != "=" || strings.ContainsAny(sign, "<>") || !text && !truth || reflect.TypeOf(v) != reflect.TypeOf(w) {
				return nil, fmt.Errorf("%s of values that are no numbers", sign)
			}
			return (v == w) == (sign == "=="), nil
		}
		return map[string]bool{"==": a == b, "!=": a != b, "<=": a <= b, ">=": a >= b, "<": a < b, ">": a > b}[sign], nil
	}
	return v, nil
}

func (e *expression) sum() (any, error) {
	v, err := e.product()
	for err == nil {
		sign := e.sign("+", "-")
		if sign == "" {
			return v, nil
		}
		var w any
		if w, err = e.product(); err == nil {
			v, err = calculated(v, sign, w)
		}
	}
	return nil, err
}

func (e *expression) product() (any, error) {
	v, err := e.unary()
	for err == nil {
		sign := e.sign("//", "/", "*", "%")
		if sign == "" {
			return v, nil
		}
		var w any
		if w, err = e.unary(); err == nil {
			v, err = calculated(v, sign, w)
		}
	}
	return nil, err
}

func (e *expression) sign(signs ...string) string {
	for _, s := range signs {
		if e.takes(s) {
			return s
		}
	}
	return ""
}

func (e *expression) unary() (any, error) {
	if !e.takes("-") {
		return e.atom()
	}
	v, err := e.unary()
	if err != nil {
		return nil, err
	}
	return calculated(int64(0), "-", v)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func calculated(v any, sign string, w any) (any, error) {
	if a, ok := v.(string); ok && sign == "+" {
		if b, ok := w.(string); ok {
			if len(a)+len(b) > mostText {
				return nil, errLong
			}
			return a + b, nil
		}
	}
	a, ok := number(v)
	b, also := number(w)
	if !ok || !also {
		return nil, fmt.Errorf("%s of values that are no numbers", sign)
	}
	if b == 0 && strings.ContainsAny(sign, "/%") {
		return nil, errors.New("a division by 0")
	}
	r := map[string]float64{
		"+": a + b, "-": a - b, "*": a * b, "/": a / b, "//": math.Floor(a / b), "%": a - b*math.Floor(a/b),
	}[sign]
	if math.IsInf(r, 0) || math.IsNaN(r) {
		return nil, errors.New("its number is not finite")
	}
	_, whole := v.(int64)
	_, both := w.(int64)
	if whole && both && sign != "/" && math.Abs(r) < 1<<53 && r == math.Trunc(r) {
		return int64(r), nil
	}
	return r, nil
}

// list reads values up to a closing bracket.
func (e *expression) list(end string) (all []any, commas int, err error) {
	for !e.takes(end) {
		v, err := e.choice()
		if err != nil {
			return nil, 0, err
		}
		all = append(all, v)
		if e.takes(",") {
			commas++
		} else if !strings.HasPrefix(strings.TrimSpace(e.rest()), end) {
			return nil, 0, fmt.Errorf("%s is missing at %.20q", end, e.rest())
		}
	}
	return all, commas, nil
}

func (e *expression) atom() (any, error) {
	e.space()
	switch rest := e.rest(); {
	case rest == "":
		return nil, errors.New("a value is missing")
	case e.takes("("):
		all, commas, err := e.list(")")
		if err == nil && len(all) == 1 && commas == 0 {
			return all[0], nil
		}
		return all, err
	case e.takes("["):
		all, _, err := e.list("]")
		return all, err
	case e.takes("{"):
		return e.dict()
	case quoted.MatchString(rest):
		return e.text1()
	case rest[0] >= '0' && rest[0] <= '9' || rest[0] == '.':
		return e.number()
	}
	return e.named()
}

func (e *expression) dict() (any, error) {
	t := newTable()
	for !e.takes("}") {
		key, err := e.choice()
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok || !e.takes(":") {
			return nil, errors.New("a dict whose keys are no texts")
		}
		v, err := e.choice()
		if err != nil {
			return nil, err
		}
		t.set(name, v, e.place)
		if !e.takes(",") && !strings.HasPrefix(strings.TrimSpace(e.rest()), "}") {
			return nil, errors.New("} is missing")
		}
	}
	return t, nil
}

// text1 is a quoted text; in f"..." the values of names.
func (e *expression) text1() (any, error) {
	format, raw := false, false
	for ; isName(e.text[e.at]); e.at++ {
		format, raw = format || e.text[e.at]|' ' == 'f', raw || e.text[e.at]|' ' == 'r'
	}
	quote := e.text[e.at]
	end := e.at + 1
	for end < len(e.text) && e.text[end] != quote {
		if e.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(e.text) {
		return nil, errors.New("a quotation mark is missing")
	}
	text := e.text[e.at+1 : end]
	e.at = end + 1
	for format && strings.Contains(text, "{") {
		before, inner, _ := strings.Cut(text, "{")
		inner, after, ok := strings.Cut(inner, "}")
		of := &expression{
			python: e.python, module: e.module, names: e.names, depth: e.depth, place: e.place, text: inner,
		}
		v, err := of.whole()
		if err != nil || !ok {
			return nil, errors.Join(err, errors.New("an f-text that is not read"))
		}
		value, err := printed(v)
		if err != nil {
			return nil, err
		}
		text = before + strings.NewReplacer("{", "(", "}", ")").Replace(value) + after
		if len(text) > mostText {
			return nil, errLong
		}
	}
	if raw {
		return text, nil
	}
	return strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(text), nil
}

var errLong = errors.New("its text is too long")

// printed is str() of a value.
func printed(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "None", nil
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case bool:
		return map[bool]string{true: "True", false: "False"}[v], nil
	case float64:
		if size := math.Abs(v); size >= 1e16 || size < 1e-4 && size > 0 {
			return strconv.FormatFloat(v, 'e', -1, 64), nil
		}
		text := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text, nil
	}
	return "", errors.New("the text of a list or a table")
}

func (e *expression) number() (any, error) {
	begin := e.at
	e.at += len(numeral.FindString(e.rest()))
	text := strings.ReplaceAll(e.text[begin:e.at], "_", "")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return strconv.ParseFloat(text, 64)
}

// named is the value of a name, or of a call.
func (e *expression) named() (any, error) {
	name := e.path()
	switch name {
	case "":
		return nil, fmt.Errorf("not read: %.20q", e.rest())
	case "True", "False":
		return name == "True", nil
	case "None":
		return nil, nil
	}
	if e.takes("(") {
		args, _, err := e.list(")")
		if err != nil {
			return nil, err
		}
		return e.call(name, args)
	}
	return e.value(name)
}

// value is that of a name.
func (e *expression) value(name string) (any, error) {
	parts := strings.Split(name, ".")
	v, ok := e.names[parts[0]]
	if !ok {
		v, ok = e.module.names[parts[0]]
	}
	for _, part := range parts[1:] {
		t, isTable := v.(*table)
		if !isTable {
			return nil, fmt.Errorf("%s is not known", name)
		}
		v, ok = t.of[part]
	}
	if _, no := v.(unknown); !ok || no {
		return nil, fmt.Errorf("%s is not known", name)
	}
	return v, nil
}

func (e *expression) call(name string, args []any) (any, error) {
	texts, size := make([]string, len(args)), 0
	for i, a := range args {
		texts[i], _ = a.(string)
		if size += len(texts[i]); size > mostText {
			return nil, errLong
		}
	}
	switch {
	case name == "os.getcwd":
		return ".", nil
	case name == "os.path.dirname" && len(args) == 1:
		return filepath.Dir(texts[0]), nil
	case name == "os.path.abspath" && len(args) == 1:
		return texts[0], nil
	case name == "os.path.join":
		from := len(texts) - 1
		for from > 0 && !rooted(texts[from]) { // a rooted one leaves those before it out
			from--
		}
		return filepath.ToSlash(filepath.Join(texts[max(from, 0):]...)), nil
	case name == "imp.load_source" && len(args) == 2:
		return e.load(texts[1])
	case strings.HasSuffix(name, "ConfigDict"):
		if len(args) == 1 {
			return args[0], nil
		}
		return newTable(), nil
	case (name == "int" || name == "float") && len(args) == 1:
		n, ok := number(args[0])
		if !ok {
			return nil, fmt.Errorf("%s of no number", name)
		}
		if name == "float" {
			return n, nil
		}
		return int64(n), nil
	case name == "str" && len(args) == 1:
		return printed(args[0])
	}
	m, function := e.module, name
	if of, inner, ok := strings.Cut(name, "."); ok {
		if m, ok = e.module.names[of].(*module); !ok {
			return nil, fmt.Errorf("%s() is not known", name)
		}
		function = inner
	}
	f, ok := m.functions[function]
	if !ok || len(args) > 0 {
		return nil, fmt.Errorf("%s() is not known", name)
	}
	return e.run(f, e.depth+1)
}

// readPython is the result of a file's function; the only one, where none is named.
func readPython(path, name string) (*file, error) {
	p := &python{left: mostLines}
	m, err := p.load(path)
	if err != nil {
		return nil, err
	}
	top := place{path, 1, 1}
	if name == "" {
		if len(m.order) != 1 {
			return nil, top.mistake(fmt.Sprintf("%d functions of settings", len(m.order)),
				fmt.Sprintf("%s:NAME, where NAME is one of %s", path, strings.Join(m.order, ", ")))
		}
		name = m.order[0]
	}
	f, ok := m.functions[name]
	if !ok {
		return nil, top.mistake("no function "+name, "there are "+strings.Join(m.order, ", "))
	}
	v, err := p.run(f, 0)
	if err != nil {
		return nil, err
	}
	p.unread = slices.Compact(slices.Sorted(slices.Values(p.unread)))
	t, ok := v.(*table)
	if !ok {
		return nil, f.at.mistake(name+" returns no settings that are read here", strings.Join(p.unread, "; "))
	}
	if p.cards == nil {
		p.cards = m.names["gpu_number"]
	}
	all, err := flat(nil, t, "")
	return &file{
		program: "flow_grpo", path: path, at: f.at, name: name, cards: p.cards, settings: all, unread: p.unread,
	}, err
}
