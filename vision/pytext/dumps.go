package pytext

import (
	"math"
	"strconv"
	"strings"
)

// Dumps is json.dumps(v, ensure_ascii=False): what templates write where they say tojson.
// Separators are ", " and ": ", keys keep their order, nothing but quotation marks, backslashes
// and control characters is escaped. v is what OrderedJSON returns.
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
