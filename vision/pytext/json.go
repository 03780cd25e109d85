package pytext

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON is json.loads. Beside the standard it takes NaN, Infinity and -Infinity, and of a key
// given twice the last value. Values are nil, bool, string, Number, []any and Object.
func JSON(text string) (any, error) { return read(&reader{text: text}) }

// OrderedJSON is JSON whose objects are Ordered.
func OrderedJSON(text string) (any, error) { return read(&reader{text: text, ordered: true}) }

func read(r *reader) (any, error) {
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if r.blanks(); r.at < len(r.text) {
		return nil, r.wrong("nothing more was expected")
	}
	return v, nil
}

// A Number is an int or a float.
type Number struct {
	Value   float64
	IsFloat bool
	text    string // as it was written
}

// String is str(number), as far as telling numbers apart goes.
func (n Number) String() string {
	if n.IsFloat {
		return strconv.FormatFloat(n.Value, 'g', -1, 64) + "f"
	}
	return n.text
}

// An Object is a dict.
type Object map[string]any

// An Ordered is a dict that keeps the order of its keys, as Python's do.
type Ordered struct {
	Keys   []string
	Values Object
}

// deepest is how far lists and objects may be nested: about the depth that Python's stack allows.
const deepest = 900

// longestInt is how many characters a whole number may have: Python refuses to read longer ones.
const longestInt = 4300

// An errSyntax reports a text that is not JSON.
var errSyntax = errors.New("not JSON")

type reader struct {
	text    string
	at      int
	ordered bool
}

func (r *reader) wrong(what string) error {
	return fmt.Errorf("%w: at byte %d, %s", errSyntax, r.at, what)
}

func (r *reader) blanks() {
	for r.at < len(r.text) && strings.IndexByte(" \t\n\r", r.text[r.at]) >= 0 {
		r.at++
	}
}

// take moves past a word, if it comes next.
func (r *reader) take(word string) bool {
	if strings.HasPrefix(r.text[r.at:], word) {
		r.at += len(word)
		return true
	}
	return false
}

func (r *reader) value(depth int) (any, error) {
	r.blanks()
	switch {
	case depth > deepest:
		return nil, r.wrong("lists within lists are too deep")
	case r.take("null"):
		return nil, nil
	case r.take("true"):
		return true, nil
	case r.take("false"):
		return false, nil
	case r.take("NaN"):
		return Number{math.NaN(), true, "nan"}, nil
	case r.take("Infinity"):
		return Number{math.Inf(1), true, "inf"}, nil
	case r.take("-Infinity"):
		return Number{math.Inf(-1), true, "-inf"}, nil
	case r.take(`"`):
		return r.string()
	case r.take("["):
		return r.list(depth + 1)
	case r.take("{"):
		return r.object(depth + 1)
	}
	return r.number()
}

func (r *reader) list(depth int) (any, error) {
	list := []any{}
	if r.blanks(); r.take("]") {
		return list, nil
	}
	for {
		v, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if r.blanks(); r.take("]") {
			return list, nil
		}
		if !r.take(",") {
			return nil, r.wrong(`"," or "]" was expected`)
		}
	}
}

func (r *reader) object(depth int) (any, error) {
	o, err := r.members(depth)
	if err != nil || r.ordered {
		return o, err
	}
	return o.Values, nil
}

func (r *reader) members(depth int) (o Ordered, err error) {
	o.Values = Object{}
	if r.blanks(); r.take("}") {
		return o, nil
	}
	for {
		if r.blanks(); !r.take(`"`) {
			return o, r.wrong("a name was expected")
		}
		key, err := r.string()
		if err != nil {
			return o, err
		}
		if r.blanks(); !r.take(":") {
			return o, r.wrong(`":" was expected`)
		}
		if _, twice := o.Values[key]; !twice {
			o.Keys = append(o.Keys, key)
		}
		if o.Values[key], err = r.value(depth); err != nil {
			return o, err
		}
		if r.blanks(); r.take("}") {
			return o, nil
		}
		if !r.take(",") {
			return o, r.wrong(`"," or "}" was expected`)
		}
	}
}

// string reads the text after a quotation mark. Control characters must be escaped.
func (r *reader) string() (string, error) {
	var b strings.Builder
	for r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		switch {
		case c == '"':
			return b.String(), nil
		case c < 0x20:
			return "", r.wrong("a text has a control character")
		case c == '\\':
			if err := r.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", r.wrong("a text does not end")
}

func (r *reader) escape(b *strings.Builder) error {
	if r.at == len(r.text) {
		return r.wrong("a text does not end")
	}
	c := r.text[r.at]
	r.at++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		b.WriteByte("\"\\/\b\f\n\r\t"[i])
		return nil
	}
	if c != 'u' {
		return r.wrong("an escape is not known")
	}
	u, err := r.hex()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(u) && r.take(`\u`) {
		low, err := r.hex()
		if err != nil {
			return err
		}
		pair := utf16.DecodeRune(u, low)
		if pair == utf8.RuneError {
			b.WriteRune(utf8.RuneError) // a lone surrogate, for which Go has no rune
			r.at -= len(`\uXXXX`)
			return nil
		}
		u = pair
	}
	b.WriteRune(u)
	return nil
}

func (r *reader) hex() (rune, error) {
	if r.at+4 > len(r.text) {
		return 0, r.wrong("four hexadecimal digits were expected")
	}
	var u rune
	for _, c := range r.text[r.at : r.at+4] {
		d := strings.IndexRune("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' {
			return 0, r.wrong("four hexadecimal digits were expected")
		}
		u = u<<4 | rune(d)
	}
	r.at += 4
	return u, nil
}

// digits moves past digits, and says how many there were.
func (r *reader) digits() int {
	from := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	return r.at - from
}

func (r *reader) number() (any, error) {
	from := r.at
	r.take("-")
	if !r.take("0") && r.digits() == 0 {
		r.at = from
		return nil, r.wrong("a value was expected")
	}
	n := Number{}
	if end := r.at; r.take(".") {
		if n.IsFloat = r.digits() > 0; !n.IsFloat {
			r.at = end
		}
	}
	if end := r.at; r.take("e") || r.take("E") {
		if !r.take("+") {
			r.take("-")
		}
		if r.digits() > 0 {
			n.IsFloat = true
		} else {
			r.at = end
		}
	}
	n.text = r.text[from:r.at]
	if !n.IsFloat && len(n.text) > longestInt {
		r.at = from
		return nil, r.wrong("a whole number has too many digits")
	}
	n.Value, _ = strconv.ParseFloat(n.text, 64) // its form is right; a number that is too large is an infinity
	return n, nil
}

// Dumps is json.dumps(v, ensure_ascii=False): the output of tojson in templates. Separators are ", " and ": ", keys
// keep their order, nothing but quotation marks, backslashes and control characters is escaped. v is a value of
// OrderedJSON.
func Dumps(v any) string {
	var b strings.Builder
	dump(&b, v)
	return b.String()
}

func dump(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case string:
		quote(b, v)
	case Number:
		b.WriteString(v.json())
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			dump(b, e)
		}
		b.WriteByte(']')
	case Ordered:
		b.WriteByte('{')
		for i, k := range v.Keys {
			if i > 0 {
				b.WriteString(", ")
			}
			quote(b, k)
			b.WriteString(": ")
			dump(b, v.Values[k])
		}
		b.WriteByte('}')
	}
}

func quote(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		c := s[i]
		if at := strings.IndexByte("\"\\\b\f\n\r\t", c); at >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`"\bfnrt`[at])
		} else if c < 0x20 {
			b.WriteString(`\u00`)
			b.WriteByte("01"[c>>4])
			b.WriteByte("0123456789abcdef"[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

func (n Number) json() string {
	switch {
	case math.IsNaN(n.Value):
		return "NaN"
	case !n.IsFloat && n.text == "-0":
		return "0"
	case !n.IsFloat:
		return n.text
	case math.IsInf(n.Value, 1):
		return "Infinity"
	case math.IsInf(n.Value, -1):
		return "-Infinity"
	}
	return Repr(n.Value)
}

// Repr is repr(x) of a finite float: the shortest digits that give x again, with an exponent
// below 1e-4 and from 1e16 on.
func Repr(x float64) string {
	if size := math.Abs(x); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
