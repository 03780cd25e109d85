package onnx

import (
	"math"
	"slices"
)

// Card: numbers in 8, 16 and 32 bits with scales. A quotient is rounded to the nearest integer, ties to even, and
// saturates. Products of quantized numbers are exact integers, scaled once at the end.

func quantizers() []operator {
	return []operator{
		{name: "QuantizeLinear", since: 10, least: 2, most: 3, run: quantize},
		{name: "DequantizeLinear", since: 10, least: 2, most: 3, run: dequantize},
		{name: "DynamicQuantizeLinear", since: 11, least: 1, most: 1, run: dynamicQuantize},
		{name: "QLinearMatMul", since: 10, least: 8, most: 8, run: qLinearMatMul},
		{name: "MatMulInteger", since: 10, least: 2, most: 4, run: matMulInteger},
		{name: "QLinearConv", since: 10, least: 8, most: 9, run: qLinearConv},
		{name: "ConvInteger", since: 10, least: 2, most: 4, run: convInteger},
	}
}

// scaleAt is the place of an element's scale: of one, of an axis, or of blocks of an axis.
func (c *call) scaleAt(x, scale *Tensor) func(i int) int {
	if scale.Len() == 1 && len(scale.Shape) <= 1 {
		return func(int) int { return 0 }
	}
	a, block := c.axis(c.int("axis", 1), len(x.Shape)), c.int("block_size", 0)
	inner := volume(x.Shape[a+1:])
	if block == 0 {
		if len(scale.Shape) != 1 || scale.Shape[0] != x.Shape[a] {
			c.fail("scales %v along axis %d of %v", scale, a, x)
		}
		return func(i int) int { return i / inner % x.Shape[a] }
	}
	want := slices.Clone(x.Shape)
	if block < 1 {
		c.fail("block_size is %d", block)
	}
	want[a] = (x.Shape[a] + block - 1) / block
	if !slices.Equal(scale.Shape, want) {
		c.fail("scales %v in blocks of %d along axis %d of %v", scale, block, a, x)
	}
	return func(i int) int {
		return (i/inner/x.Shape[a]*want[a]+i/inner%x.Shape[a]/block)*inner + i%inner
	}
}

// saturate is a number as an integer type holds it.
func (t Type) saturate(v float64) int64 {
	low, high := t.limits()
	switch {
	case v != v:
		return 0
	case v <= float64(low):
		return low
	case v >= float64(high):
		return high
	}
	return int64(math.RoundToEven(v))
}

func quantize(c *call) {
	x, scale := c.floats(c.plain(0)), c.floats(c.plain(1))
	zero := c.unlast(c.optional(2))
	to := Type(c.int("output_dtype", 0))
	if to == 0 {
		to = Uint8
	}
	if zero != nil {
		to = zero.Type
	}
	if !to.isInt() || to.size() > 2 || zero != nil && !slices.Equal(zero.Shape, scale.Shape) && zero.Len() != scale.Len() {
		c.fail("to %v, by scales %v and zeros %v", to, scale, zero)
	}
	at := c.scaleAt(x, scale)
	out := c.new(to, x.Shape...)
	for i := range out.I {
		k := at(i)
		v := math.RoundToEven(float64(float32(x.float(i)) / float32(scale.float(k))))
		if zero != nil {
			v += float64(zero.I[k])
		}
		out.I[i] = to.saturate(v)
	}
	c.put(out)
}

func dequantize(c *call) {
	x, scale := c.plain(0), c.floats(c.plain(1))
	zero := c.unlast(c.optional(2))
	if !x.Type.isInt() || zero != nil && (zero.Type != x.Type || zero.Len() != scale.Len()) {
		c.fail("inputs are %v, %v and %v", x, scale, zero)
	}
	at := c.scaleAt(x, scale)
	to := Type(c.int("output_dtype", int(scale.Type)))
	if to == 0 {
		to = scale.Type
	}
	out := c.new(to, x.Shape...)
	for i, v := range x.I {
		k := at(i)
		if zero != nil {
			v -= zero.I[k]
		}
		out.set(i, float64(v)*scale.float(k))
	}
	c.put(out)
}

func dynamicQuantize(c *call) {
	x := c.plain(0)
	c.need(x, Float)
	low, high := 0.0, 0.0
	for _, v := range x.F {
		low, high = math.Min(low, float64(v)), math.Max(high, float64(v))
	}
	scale := float32(high-low) / 255
	zero := int64(0)
	if scale != 0 {
		zero = Uint8.saturate(math.RoundToEven(float64(float32(-low) / scale)))
	}
	out, s, z := c.new(Uint8, x.Shape...), c.new(Float), c.new(Uint8)
	for i, v := range x.F {
		q := 0.0
		if scale != 0 {
			q = math.RoundToEven(float64(v / scale))
		}
		out.I[i] = Uint8.saturate(q + float64(zero))
	}
	s.F[0], z.I[0] = scale, zero
	if len(c.out) != 3 {
		c.fail("it has %d outputs; 3 are needed", len(c.out))
	}
	c.out[0], c.out[1], c.out[2] = out, s, z
}

// shifted is an integer tensor less its zeros, as int64. Zeros are one, or one for each row (axis at the end but one)
// or column.
func (c *call) shifted(x, zero *Tensor, axis int) *Tensor {
	if !x.Type.isInt() || zero != nil && zero.Type != x.Type {
		c.fail("inputs are %v and zeros %v", x, zero)
	}
	out := c.new(Int64, x.Shape...)
	copy(out.I, x.I)
	if zero == nil {
		return out
	}
	if zero.Len() == 1 {
		for i := range out.I {
			out.I[i] -= zero.I[0]
		}
		return out
	}
	a := c.axis(axis, len(x.Shape))
	if x.Shape[a] != zero.Len() {
		c.fail("zeros %v along axis %d of %v", zero, a, x)
	}
	inner := volume(x.Shape[a+1:])
	for i := range out.I {
		out.I[i] -= zero.I[i/inner%x.Shape[a]]
	}
	return out
}

func matMulInteger(c *call) {
	a, b := c.shifted(c.plain(0), c.unlast(c.optional(2)), -2), c.shifted(c.plain(1), c.unlast(c.optional(3)), -1)
	out := c.matmul(a, b, false)
	c.put(c.cast(out, Int32))
}

func qLinearMatMul(c *call) {
	a, b := c.plain(0), c.plain(3)
	x, y := c.shifted(a, c.plain(2), -2), c.shifted(b, c.plain(5), -1)
	product := c.matmul(x, y, false)
	n := product.Shape[len(product.Shape)-1]
	sa, sb, sy, zero := c.plain(1), c.plain(4), c.plain(6), c.plain(7)
	out := c.new(zero.Type, product.Shape...)
	for i, v := range product.I {
		s := sa.float(0)
		if sa.Len() > 1 {
			s = sa.float(i / n % sa.Len())
		}
		k := 0
		if sb.Len() > 1 {
			k = i % n
		}
		out.I[i] = zero.Type.saturate(math.RoundToEven(float64(float64(v)*s)*sb.float(k)/sy.float(0)) + float64(zero.I[0]))
	}
	c.put(out)
}

// integerConv is a convolution of integers, exact.
func (c *call) integerConv(x, w *Tensor) *Tensor {
	group := c.int("group", 1)
	if len(x.Shape) < 3 || len(w.Shape) != len(x.Shape) || group < 1 || x.Shape[1] != w.Shape[1]*group || w.Shape[0]%group != 0 {
		c.fail("inputs are %v and %v in %d groups", x, w, group)
	}
	g := c.window(x, w.Shape[2:], false)
	in, o := w.Shape[1], w.Shape[0]
	places, pixels, size := volume(g.kernel), volume(g.out), volume(g.in)
	c.spend(x.Shape[0], pixels, o, in, places)
	out := c.new(Int64, append([]int{x.Shape[0], o}, g.out...)...)
	step := strides(g.in)
	c.each(x.Shape[0]*o, pixels*places*in, func(lo, hi int) {
		index, place := make([]int, len(g.out)), make([]int, len(g.out))
		for r := lo; r < hi; r++ {
			base := (r/o*x.Shape[1] + r%o/(o/group)*in) * size
			for p := range pixels {
				unravel(index, p, g.out)
				v := int64(0)
				for q := range places {
					unravel(place, q, g.kernel)
					if at, inside := g.place(index, place, step); inside {
						for i := range in {
							v += x.I[base+i*size+at] * w.I[(r%o*in+i)*places+q]
						}
					}
				}
				out.I[r*pixels+p] = v
			}
		}
	})
	return out
}

func convInteger(c *call) {
	c.put(c.cast(c.integerConv(c.shifted(c.plain(0), c.unlast(c.optional(2)), 0), c.shifted(c.plain(1), c.unlast(c.optional(3)), 0)), Int32))
}

func qLinearConv(c *call) {
	product := c.integerConv(c.shifted(c.plain(0), c.plain(2), 0), c.shifted(c.plain(3), c.plain(5), 0))
	sx, sw, sy, zero, bias := c.plain(1), c.plain(4), c.plain(6), c.plain(7), c.unlast(c.optional(8))
	out := c.new(zero.Type, product.Shape...)
	o, pixels := product.Shape[1], volume(product.Shape[2:])
	for i, v := range product.I {
		k := i / pixels % o
		if bias != nil {
			v += bias.I[k]
		}
		if sw.Len() == 1 {
			k = 0
		}
		out.I[i] = zero.Type.saturate(math.RoundToEven(float64(float64(v)*sx.float(0))*sw.float(k)/sy.float(0)) + float64(zero.I[0]))
	}
	c.put(out)
}
