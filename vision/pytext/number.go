package pytext

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var floatForm = regexp.MustCompile(`^[+-]?(?:[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9](?:_?[0-9])*)?$`)

// Float is float(s), and whether it does not raise. Digits of any script count, underscores
// between digits do not; what is too large is an infinity.
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
