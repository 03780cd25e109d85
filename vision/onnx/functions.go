package onnx

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/portable"
)

// Card: functions of one number. Exp, Tanh and Sigmoid of float are the backend's; others are computed in float64,
// with the same bits on every machine, and rounded once.

func functions() []operator {
	one := func(name string, since int, f func(v float64) float64) operator {
		return operator{name: name, since: since, least: 1, most: 1, run: mapped(func(*call) func(v float64) float64 { return f })}
	}
	return []operator{
		{name: "Abs", least: 1, most: 1, run: integral(math.Abs, func(v int64) int64 { return max(v, -v) })},
		{name: "Neg", least: 1, most: 1, run: integral(func(v float64) float64 { return -v }, func(v int64) int64 { return -v })},
		{name: "Sign", since: 9, least: 1, most: 1, run: integral(sign, func(v int64) int64 { return min(max(v, -1), 1) })},
		{name: "Exp", least: 1, most: 1, run: unary(kernels.Exp, portable.Exp)},
		one("Sqrt", 0, math.Sqrt),
		one("Reciprocal", 0, func(v float64) float64 { return 1 / v }),
		one("Log", 0, portable.Log),
		one("Floor", 0, math.Floor),
		one("Ceil", 0, math.Ceil),
		one("Round", 11, math.RoundToEven),
		one("Sin", 7, portable.Sin),
		one("Cos", 7, portable.Cos),
		one("Tan", 7, func(v float64) float64 { return portable.Sin(v) / portable.Cos(v) }),
		one("Atan", 7, func(v float64) float64 { return portable.Atan2(v, 1) }),
		one("Asin", 7, func(v float64) float64 { return portable.Atan2(v, math.Sqrt((1-v)*(1+v))) }),
		one("Acos", 7, func(v float64) float64 { return portable.Atan2(math.Sqrt((1-v)*(1+v)), v) }),
		one("Sinh", 9, sinh),
		one("Cosh", 9, func(v float64) float64 { return (portable.Exp(v) + portable.Exp(-v)) / 2 }),
		one("Asinh", 9, func(v float64) float64 {
			a := math.Abs(v)
			return math.Copysign(portable.Log1p(a+float64(a*a)/(1+math.Sqrt(float64(a*a)+1))), v)
		}),
		one("Acosh", 9, func(v float64) float64 { return portable.Log(v + math.Sqrt((v-1)*(v+1))) }),
		one("Atanh", 9, func(v float64) float64 { return portable.Log1p(2*v/(1-v)) / 2 }),
		one("Erf", 9, portable.Erf),
	}
}

func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return v // zeros and NaN
}

func sinh(v float64) float64 {
	e := portable.Expm1(math.Abs(v))
	return math.Copysign((e+e/(e+1))/2, v)
}

// mapped is a function of floats, which of makes of the node's attributes.
func mapped(of func(c *call) func(v float64) float64) func(c *call) {
	return func(c *call) {
		x := c.floats(c.at(0))
		c.apply(x, of(c))
	}
}

// apply puts a function of every element.
func (c *call) apply(x *Tensor, f func(v float64) float64) {
	out := c.like(x, x.Type)
	c.spend(x.Len())
	c.each(x.Len(), 8, func(lo, hi int) {
		switch {
		case x.Type == Float:
			for i, v := range x.F[lo:hi] {
				out.F[lo+i] = float32(f(float64(v)))
			}
		default:
			for i := lo; i < hi; i++ {
				out.set(i, f(x.float(i)))
			}
		}
	})
	c.put(out)
}

// unary is a function that the backend has, and the same of other floats.
func unary(op kernels.UnaryOp, f func(v float64) float64) func(c *call) {
	return func(c *call) {
		x := c.floats(c.at(0))
		if x.Type == Float {
			c.unary(x, op)
			return
		}
		c.apply(x, f)
	}
}

// unary puts a function of the backend.
func (c *call) unary(x *Tensor, op kernels.UnaryOp) {
	out := c.like(x, Float)
	c.spend(x.Len())
	if len(x.F) > 0 {
		c.backend().Unary(&kernels.Unary{Op: op, X: span(x.F), Y: span(out.F)})
	}
	c.put(out)
}

// integral is a function of floats and of integers.
func integral(f func(v float64) float64, g func(v int64) int64) func(c *call) {
	return func(c *call) {
		x := c.at(0)
		if !x.Type.isInt() {
			c.apply(c.floats(x), f)
			return
		}
		out := c.like(x, x.Type)
		for i, v := range x.I {
			if x.Type == Uint64 {
				out.I[i] = v
				continue
			}
			out.I[i] = x.Type.wrap(g(v))
		}
		c.put(out)
	}
}
