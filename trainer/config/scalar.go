package config

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// scalar fills a value from a node that is neither list nor table, and says what
// is wrong with it.
func (v *value) scalar(n *unstable.Node) (problem, hint string) {
	switch n.Kind {
	case unstable.String:
		v.kind, v.text = aString, string(n.Data)
		if strings.ContainsRune(v.text, 0) {
			return "a string may not hold a NUL character", ""
		}
	case unstable.Bool:
		v.kind, v.truth = aBool, n.Data[0] == 't'
	case unstable.Integer:
		v.kind = anInteger
		return v.integer()
	case unstable.Float:
		v.kind = aFloat
		var err error
		if v.real = math.NaN(); !strings.HasSuffix(v.raw, "nan") {
			v.real, err = strconv.ParseFloat(strings.ReplaceAll(v.raw, "_", ""), 64)
		}
		switch {
		case errors.Is(err, strconv.ErrRange):
			return "this number is too large", "inf is infinity"
		case err != nil:
			return "this is not a number", ""
		}
	default:
		v.kind = aDate
	}
	return "", ""
}

func (v *value) integer() (problem, hint string) {
	var err error
	v.whole, err = strconv.ParseInt(strings.ReplaceAll(strings.TrimPrefix(v.raw, "+"), "_", ""), base(v.raw), 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "this integer has more than 64 bits", ""
	case err != nil:
		return "this is not a number", ""
	}
	v.real = float64(v.whole)
	return "", ""
}

// base 0 reads a prefix such as 0x.
func base(raw string) int {
	if len(raw) > 1 && raw[0] == '0' {
		return 0
	}
	return 10
}
