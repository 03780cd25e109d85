package onnx

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/portable"
)

// Card: activations. Relu, Sigmoid, Tanh, Gelu and Swish of float are the backend's; the others are computed in
// float64 and rounded once. Softmax and its kind work on rows; before opset 13 a row is all axes from axis on.

func activations() []operator {
	by := func(name string, since int, of func(c *call) func(v float64) float64) operator {
		return operator{name: name, since: since, least: 1, most: 1, run: mapped(of)}
	}
	return []operator{
		{name: "Relu", least: 1, most: 1, run: relu},
		{name: "Sigmoid", least: 1, most: 1, run: unary(kernels.Sigmoid, sigmoid)},
		{name: "Tanh", least: 1, most: 1, run: mapped(func(*call) func(v float64) float64 { return tanh })},
		{name: "Gelu", since: 20, least: 1, most: 1, run: gelu},
		{name: "Swish", since: 24, least: 1, most: 1, run: swish},
		by("LeakyRelu", 0, func(c *call) func(v float64) float64 {
			a := c.number("alpha", f32(0.01))
			return func(v float64) float64 {
				if v < 0 {
					return a * v
				}
				return v
			}
		}),
		by("ThresholdedRelu", 10, func(c *call) func(v float64) float64 {
			a := c.number("alpha", 1)
			return func(v float64) float64 {
				if v > a {
					return v
				}
				return 0
			}
		}),
		by("Elu", 0, func(c *call) func(v float64) float64 {
			a := c.number("alpha", 1)
			return func(v float64) float64 {
				if v < 0 {
					return a * portable.Expm1(v)
				}
				return v
			}
		}),
		by("Celu", 12, func(c *call) func(v float64) float64 {
			a := c.number("alpha", 1)
			return func(v float64) float64 { return math.Max(0, v) + math.Min(0, a*portable.Expm1(v/a)) }
		}),
		by("Selu", 0, func(c *call) func(v float64) float64 {
			a, g := c.number("alpha", f32(1.67326319217681884765625)), c.number("gamma", f32(1.05070102214813232421875))
			return func(v float64) float64 {
				if v <= 0 {
					return g * (a * portable.Expm1(v))
				}
				return g * v
			}
		}),
		by("HardSigmoid", 0, func(c *call) func(v float64) float64 {
			a, b := c.number("alpha", f32(0.2)), c.number("beta", 0.5)
			return func(v float64) float64 { return math.Max(0, math.Min(1, float64(a*v)+b)) }
		}),
		by("HardSwish", 14, func(*call) func(v float64) float64 {
			return func(v float64) float64 { return v * math.Max(0, math.Min(1, v/6+0.5)) }
		}),
		by("Mish", 18, func(*call) func(v float64) float64 {
			return func(v float64) float64 { return v * tanh(softplus(v)) }
		}),
		by("Softplus", 0, func(*call) func(v float64) float64 { return softplus }),
		by("Softsign", 0, func(*call) func(v float64) float64 {
			return func(v float64) float64 { return v / (1 + math.Abs(v)) }
		}),
		by("Shrink", 9, func(c *call) func(v float64) float64 {
			bias, lambd := c.number("bias", 0), c.number("lambd", 0.5)
			return func(v float64) float64 {
				switch {
				case v < -lambd:
					return v + bias
				case v > lambd:
					return v - bias
				}
				return 0
			}
		}),
		{name: "PRelu", least: 2, most: 2, run: prelu},
		{name: "Clip", least: 1, most: 3, run: clip},
		{name: "Softmax", least: 1, most: 1, run: rows(softmax)},
		{name: "LogSoftmax", least: 1, most: 1, run: rows(logSoftmax)},
		{name: "Hardmax", least: 1, most: 1, run: rows(hardmax)},
	}
}

// f32 is a constant as the specification's default, a float, has it.
func f32(v float64) float64 { return float64(float32(v)) }

func sigmoid(v float64) float64 { return 1 / (1 + portable.Exp(-v)) }

// tanh is 1 - 2/(1 + e^2|v|), by way of expm1, which keeps the digits near zero.
func tanh(v float64) float64 {
	e := portable.Expm1(2 * math.Abs(v))
	if math.IsInf(e, 1) {
		return math.Copysign(1, v)
	}
	return math.Copysign(e/(e+2), v)
}

func softplus(v float64) float64 {
	return math.Max(v, 0) + portable.Log1p(portable.Exp(-math.Abs(v)))
}

func relu(c *call) {
	x := c.at(0)
	switch {
	case x.Type == Float:
		c.unary(x, kernels.ReLU)
	case x.Type.isInt():
		out := c.like(x, x.Type)
		for i, v := range x.I {
			if out.I[i] = v; v < 0 && x.Type != Uint64 {
				out.I[i] = 0
			}
		}
		c.put(out)
	default:
		c.apply(c.floats(x), func(v float64) float64 { return math.Max(v, 0) })
	}
}

func gelu(c *call) {
	x := c.floats(c.at(0))
	tanhs := c.oneOf("approximate", "none", "none", "tanh") == "tanh"
	switch {
	case x.Type == Float && tanhs:
		c.unary(x, kernels.GELUTanh)
	case x.Type == Float:
		c.unary(x, kernels.GELUErf)
	case tanhs:
		k := math.Sqrt(2 / math.Pi)
		c.apply(x, func(v float64) float64 {
			u := k * (v + float64(0.044715*float64(v*float64(v*v))))
			return 0.5 * v * (1 + tanh(u))
		})
	default:
		c.apply(x, func(v float64) float64 { return 0.5 * v * (1 + portable.Erf(v/math.Sqrt2)) })
	}
}

func swish(c *call) {
	x, a := c.floats(c.at(0)), c.number("alpha", 1)
	if x.Type == Float && a == 1 {
		c.unary(x, kernels.SiLU)
		return
	}
	c.apply(x, func(v float64) float64 { return v * sigmoid(a*v) })
}

// prelu has a slope that is repeated over the input.
func prelu(c *call) {
	x, slope := c.at(0), c.at(1)
	if x.Type != slope.Type {
		c.fail("inputs are %v and %v; two of one type are needed", x, slope)
	}
	px, ps, order, last := c.aligned(x, slope, c.broadcast(x.Shape, slope.Shape))
	out := c.new(x.Type, x.Shape...)
	out.last = last
	if volume(order) != x.Len() {
		c.fail("a slope of %v over %v", slope, x)
	}
	c.places(order, px, ps, func(o, i, j int) {
		if x.F != nil && x.F[i] >= 0 {
			out.F[o] = x.F[i]
			return
		}
		v := x.float(i)
		if v < 0 {
			v *= slope.float(j)
		}
		out.set(o, v)
	})
	c.put(out)
}

// clip holds numbers between two, which are attributes before opset 11.
func clip(c *call) {
	x := c.at(0)
	if x.Type == String || x.Type == Bool {
		c.fail("its input is %v", x)
	}
	out := c.like(x, x.Type)
	if x.I != nil {
		low, high := x.Type.limits()
		if x.Type == Uint64 {
			low, high = 0, -1
		}
		if t := c.optional(1); t != nil {
			c.scalar(1, 0)
			low = t.I[0]
		}
		if t := c.optional(2); t != nil {
			c.scalar(2, 0)
			high = t.I[0]
		}
		for i, v := range x.I {
			if less(x.Type, v, low) {
				v = low
			}
			if less(x.Type, high, v) {
				v = high
			}
			out.I[i] = v
		}
		c.put(out)
		return
	}
	low, high := c.scalar(1, c.number("min", math.Inf(-1))), c.scalar(2, c.number("max", math.Inf(1)))
	c.spend(x.Len())
	c.each(x.Len(), 2, func(lo, hi int) {
		if x.Type == Float {
			l, h := float32(low), float32(high)
			for i, v := range x.F[lo:hi] {
				out.F[lo+i] = min(max(v, l), h)
			}
			return
		}
		for i := lo; i < hi; i++ {
			out.set(i, min(max(x.float(i), low), high))
		}
	})
	c.put(out)
}

// rows runs a function of a row of an axis; before opset 13, of all axes from one on.
func rows(f func(c *call, out, in *Tensor, n, width int)) func(c *call) {
	return func(c *call) {
		x := c.floats(c.plain(0))
		rank := len(x.Shape)
		c.spend(x.Len())
		if c.opset < 13 {
			a := c.int("axis", 1)
			if a < 0 {
				a += rank
			}
			if a < 0 || a > rank {
				c.fail("axis %d of %v", c.int("axis", 1), x)
			}
			out := c.new(x.Type, x.Shape...)
			if x.Len() > 0 {
				f(c, out, x, volume(x.Shape[:a]), volume(x.Shape[a:]))
			}
			c.put(out)
			return
		}
		a := c.axis(c.int("axis", -1), max(rank, 1))
		if rank == 0 {
			out := c.new(x.Type)
			f(c, out, x, 1, 1)
			c.put(out)
			return
		}
		turned := c.moved(x, a, rank-1)
		out := c.new(x.Type, turned.Shape...)
		if x.Len() > 0 {
			f(c, out, turned, x.Len()/x.Shape[a], x.Shape[a])
		}
		c.drop(turned)
		c.put(c.moved(out, rank-1, a))
		c.drop(out)
	}
}

// moved is a tensor with one axis at another place.
func (c *call) moved(x *Tensor, from, to int) *Tensor {
	perm := make([]int, 0, len(x.Shape))
	for i := range x.Shape {
		if i != from {
			perm = append(perm, i)
		}
	}
	perm = append(perm[:to], append([]int{from}, perm[to:]...)...)
	return c.transpose(x, perm)
}

func softmax(c *call, out, x *Tensor, n, width int) {
	if x.Type == Float {
		c.backend().Softmax(&kernels.Softmax{X: mat(x.F, n, width), Y: mat(out.F, n, width)})
		return
	}
	c.each(n, 8*width, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			m, s := math.Inf(-1), 0.0
			for i := range width {
				m = math.Max(m, x.float(r*width+i))
			}
			for i := range width {
				s += portable.Exp(x.float(r*width+i) - m)
			}
			for i := range width {
				out.set(r*width+i, portable.Exp(x.float(r*width+i)-m)/s)
			}
		}
	})
}

func logSoftmax(c *call, out, x *Tensor, n, width int) {
	c.each(n, 8*width, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			m, s := math.Inf(-1), 0.0
			for i := range width {
				m = math.Max(m, x.float(r*width+i))
			}
			for i := range width {
				s += portable.Exp(x.float(r*width+i) - m)
			}
			s = portable.Log(s)
			for i := range width {
				out.set(r*width+i, x.float(r*width+i)-m-s)
			}
		}
	})
}

// hardmax is 1 at the first of the largest.
func hardmax(_ *call, out, x *Tensor, n, width int) {
	for r := range n {
		best := 0
		for i := range width {
			if x.float(r*width+i) > x.float(r*width+best) {
				best = i
			}
			out.set(r*width+i, 0)
		}
		out.set(r*width+best, 1)
	}
}
