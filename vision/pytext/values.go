package pytext

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// What Python says of a value that OrderedJSON read: its type, whether it counts as true, how it
// is printed.

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

// printed is as JSON has it, but for what is no finite number.
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
