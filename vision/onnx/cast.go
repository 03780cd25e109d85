package onnx

import (
	"math"
	"strconv"
	"strings"
)

// Card: Cast. Floats lose their fraction on the way to integers, which wrap around; texts are numbers as Go reads
// them, and numbers texts as C's %g with as many digits as the type needs.

func cast(c *call) {
	x, to := c.at(0), Type(c.int("to", 0))
	c.put(c.cast(x, to))
}

func (c *call) cast(x *Tensor, to Type) *Tensor {
	if to.size() == 0 {
		c.fail("a cast to %v; the runner has %s", to, knownTypes())
	}
	if x.Type == to {
		return c.same(x)
	}
	c.spend(x.Len())
	if to.isFloat() {
		out := c.like(x, to)
		if x.last {
			for i, v := range x.F {
				out.F[i] = to.round(v)
			}
			return out
		}
	}
	c.unlast(x)
	out := c.new(to, x.Shape...)
	for i := range x.Len() {
		switch {
		case to == String:
			out.S[i] = spelled(x, i)
		case x.Type == String:
			v, err := number(x.S[i])
			if err != nil {
				c.fail("text %q as %v: %v", x.S[i], to, err)
			}
			out.set(i, v)
		case x.I != nil && out.I != nil:
			v := x.I[i]
			if to == Bool && v != 0 {
				v = 1
			}
			out.I[i] = to.wrap(v)
		default:
			out.set(i, x.float(i))
		}
	}
	return out
}

func number(text string) (float64, error) {
	switch strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(text, "+"), "-")) {
	case "inf", "infinity":
		if strings.HasPrefix(text, "-") {
			return math.Inf(-1), nil
		}
		return math.Inf(1), nil
	}
	return strconv.ParseFloat(strings.TrimSpace(text), 64)
}

// spelled is a number as a text.
func spelled(x *Tensor, i int) string {
	switch {
	case x.Type == Bool:
		return strconv.FormatInt(x.I[i], 10)
	case x.Type == Uint64:
		return strconv.FormatUint(uint64(x.I[i]), 10)
	case x.I != nil:
		return strconv.FormatInt(x.I[i], 10)
	}
	v := x.float(i)
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return map[bool]string{true: "-INF", false: "INF"}[v < 0]
	case x.F != nil:
		return strconv.FormatFloat(v, 'g', -1, 32)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
