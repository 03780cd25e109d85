// Package pytext reads text the way Python reads it.
//
// Published programs judge texts of language models, and those programs are written in Python: the characters that
// str.strip removes, the texts that float takes, the NaN of json.loads decide whether an answer counts. Go differs in
// each of these, so the rules are here, once.
//
// text.go has white space and case, float, isdigit, repr, str and the types of values, json.go has json.loads and
// json.dumps.
package pytext

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Space is str.isspace: Go's white space, and the four separators of ASCII.
func Space(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// SpaceClass is \s of the module re, for Go's regexp.
const SpaceClass = `[\s\v\x1c-\x1f\x85\p{Z}]`

// Strip is str.strip.
func Strip(s string) string { return strings.TrimFunc(s, Space) }

// Fields is str.split without an argument.
func Fields(s string) []string { return strings.FieldsFunc(s, Space) }

// Lower is str.lower: the full rules, by which a word's last sigma has its own form, and a
// dotted I becomes two code points.
func Lower(s string) string { return cases.Lower(language.Und).String(s) }

// Upper is str.upper.
func Upper(s string) string { return cases.Upper(language.Und).String(s) }

// Last is s.split(sep)[-1]: the text after the last sep, all of it without one.
func Last(s, sep string) string {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[i+len(sep):]
	}
	return s
}

// First is s.split(sep)[0].
func First(s, sep string) string {
	before, _, _ := strings.Cut(s, sep)
	return before
}

// Tail is s[-n:], in code points.
func Tail(s string, n int) string {
	runes := []rune(s)
	return string(runes[max(0, len(runes)-n):])
}

// Python's view of a value that OrderedJSON read: its type, whether it counts as true, how it is printed.

// NewInt, NewUint and NewFloat are ints and a float.
func NewInt(n int) Number { return Number{float64(n), false, strconv.Itoa(n)} }

func NewUint(n uint64) Number { return Number{float64(n), false, strconv.FormatUint(n, 10)} }

func NewFloat(x float64) Number { return Number{x, true, ""} }

// TypeName is type(v).__name__.
func TypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case string:
		return "str"
	case []any:
		return "list"
	case Number:
		if v.IsFloat {
			return "float"
		}
		return "int"
	}
	return "dict"
}

// Truth is bool(v).
func Truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case Number:
		return v.Value != 0
	case Ordered:
		return len(v.Keys) > 0
	}
	return true
}

// ReprOf is repr(v).
func ReprOf(v any) string {
	var b strings.Builder
	printed(&b, v)
	return b.String()
}

// Str is str(v).
func Str(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return ReprOf(v)
}

func printed(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case string:
		b.WriteString(quotePython(v))
	case Number:
		b.WriteString(v.printed())
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			printed(b, e)
		}
		b.WriteByte(']')
	case Ordered:
		b.WriteByte('{')
		for i, key := range v.Keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quotePython(key) + ": ")
			printed(b, v.Values[key])
		}
		b.WriteByte('}')
	default:
		fmt.Fprint(b, v)
	}
}

// printed is as JSON has it, except for infinities and NaN.
func (n Number) printed() string {
	switch {
	case math.IsNaN(n.Value):
		return "nan"
	case n.IsFloat && math.IsInf(n.Value, 1):
		return "inf"
	case n.IsFloat && math.IsInf(n.Value, -1):
		return "-inf"
	}
	return n.json()
}

// quotePython is repr of a text: single quotes, unless it holds these and no double ones.
func quotePython(text string) string {
	quote := '\''
	if strings.ContainsRune(text, '\'') && !strings.ContainsRune(text, '"') {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range text {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteString(map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`}[r])
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

var floatForm = regexp.MustCompile(`^[+-]?(?:[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9](?:_?[0-9])*)?$`)

// Float is float(s), and whether it does not raise. Digits of any script count, underscores between digits do not; a
// number that is too large is an infinity.
func Float(s string) (float64, bool) {
	s = strings.Map(asciiDigit, Strip(s))
	switch strings.TrimLeft(strings.ToLower(s), "+-") {
	case "nan", "inf", "infinity":
		if len(strings.TrimLeft(s, "+-")) < len(s)-1 {
			return 0, false
		}
		if x, err := strconv.ParseFloat(s, 64); err == nil {
			return x, true
		}
		x, err := strconv.ParseFloat(s[1:], 64) // "-nan", which Go does not take
		return x, err == nil
	}
	if !floatForm.MatchString(s) {
		return 0, false
	}
	x, _ := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64) // its form is right: only the range can be
	return x, true
}

// asciiDigit is a decimal digit of any script as Python's int takes it, else the rune itself.
// Decimal digits come in runs of ten.
func asciiDigit(r rune) rune {
	if r < 0x80 || !unicode.Is(unicode.Nd, r) {
		return r
	}
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	return r
}

// single are the digits of Unicode that are not decimal: raised, lowered, circled.
var single = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0xb2, Hi: 0xb3, Stride: 1}, {Lo: 0xb9, Hi: 0xb9, Stride: 1}, {Lo: 0x1369, Hi: 0x1371, Stride: 1}, {Lo: 0x19da, Hi: 0x19da, Stride: 1},
		{Lo: 0x2070, Hi: 0x2070, Stride: 1}, {Lo: 0x2074, Hi: 0x2079, Stride: 1}, {Lo: 0x2080, Hi: 0x2089, Stride: 1},
		{Lo: 0x2460, Hi: 0x2468, Stride: 1}, {Lo: 0x2474, Hi: 0x247c, Stride: 1}, {Lo: 0x2488, Hi: 0x2490, Stride: 1},
		{Lo: 0x24ea, Hi: 0x24ea, Stride: 1}, {Lo: 0x24f5, Hi: 0x24fd, Stride: 1}, {Lo: 0x24ff, Hi: 0x24ff, Stride: 1},
		{Lo: 0x2776, Hi: 0x277e, Stride: 1}, {Lo: 0x2780, Hi: 0x2788, Stride: 1}, {Lo: 0x278a, Hi: 0x2792, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x10a40, Hi: 0x10a43, Stride: 1}, {Lo: 0x10e60, Hi: 0x10e68, Stride: 1}, {Lo: 0x11052, Hi: 0x1105a, Stride: 1}, {Lo: 0x1f100, Hi: 0x1f10a, Stride: 1},
	},
	LatinOffset: 2,
}

// IsDigit is str.isdigit.
func IsDigit(s string) bool {
	for _, r := range s {
		if !unicode.Is(unicode.Nd, r) && !unicode.Is(single, r) {
			return false
		}
	}
	return s != ""
}
