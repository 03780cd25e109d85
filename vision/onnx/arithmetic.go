package onnx

import (
	"math"
	"math/bits"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/portable"
)

// Card: arithmetic of two and more tensors, broadcast by numpy's rule. Add, Sub, Mul and Div of float are the
// backend's; integers wrap around, and a division by zero is refused, where runtimes differ. Mean and Sum add from
// the first input.

func arithmetic() []operator {
	return []operator{
		{name: "Add", least: 2, most: 2, run: elementwise(kernels.Add, func(x, y float64) float64 { return x + y }, func(_ *call, _ Type, x, y int64) int64 { return x + y })},
		{name: "Sub", least: 2, most: 2, run: elementwise(kernels.Sub, func(x, y float64) float64 { return x - y }, func(_ *call, _ Type, x, y int64) int64 { return x - y })},
		{name: "Mul", least: 2, most: 2, run: elementwise(kernels.Mul, func(x, y float64) float64 { return x * y }, func(_ *call, _ Type, x, y int64) int64 { return x * y })},
		{name: "Div", least: 2, most: 2, run: elementwise(kernels.Div, func(x, y float64) float64 { return x / y }, divide)},
		{name: "Pow", least: 2, most: 2, run: power},
		{name: "Mod", since: 10, least: 2, most: 2, run: modulo},
		{name: "BitShift", since: 11, least: 2, most: 2, run: bitShift},
		{name: "BitwiseAnd", since: 18, least: 2, most: 2, run: bitwise(func(x, y int64) int64 { return x & y })},
		{name: "BitwiseOr", since: 18, least: 2, most: 2, run: bitwise(func(x, y int64) int64 { return x | y })},
		{name: "BitwiseXor", since: 18, least: 2, most: 2, run: bitwise(func(x, y int64) int64 { return x ^ y })},
		{name: "Max", least: 1, most: many, run: extreme(1)},
		{name: "Min", least: 1, most: many, run: extreme(-1)},
		{name: "Sum", least: 1, most: many, run: func(c *call) { c.put(c.sum()) }},
		{name: "Mean", least: 1, most: many, run: mean},
	}
}

// elementwise is an operation of two tensors: of float by a kernel, of others by a function.
func elementwise(op kernels.BinaryOp, f func(x, y float64) float64, g func(c *call, t Type, x, y int64) int64) func(c *call) {
	return func(c *call) {
		x, y := c.at(0), c.at(1)
		if x.Type != y.Type || x.Type == String || x.Type == Bool {
			c.fail("inputs are %v and %v; two of one type of numbers are needed", x, y)
		}
		switch {
		case x.Type == Float:
			c.put(c.kernel(op, x, y))
			return
		case x.Type.isFloat():
			out := c.kernel(op, x, y)
			out.Type = x.Type
			out.roundAll()
			c.put(out)
			return
		}
		c.unlast(x)
		c.unlast(y)
		shape := c.broadcast(x.Shape, y.Shape)
		out := c.new(x.Type, shape...)
		paired(c, out.D, shape, x.D, y.D, x.Shape, y.Shape, f)
		paired(c, out.I, shape, x.I, y.I, x.Shape, y.Shape, func(a, b int64) int64 { return x.Type.wrap(g(c, x.Type, a, b)) })
		c.put(out)
	}
}

func divide(c *call, t Type, x, y int64) int64 {
	switch {
	case y == 0:
		c.fail("an integer is divided by 0")
	case t == Uint64:
		return int64(uint64(x) / uint64(y))
	case y == -1:
		return -x
	}
	return x / y
}

// physical are a tensor's axes in the order of memory.
func physical(t *Tensor) []int {
	if t.last {
		return []int{t.Shape[0], t.Shape[2], t.Shape[3], t.Shape[1]}
	}
	return t.Shape
}

// aligned puts two tensors into one order of axes, that of the larger one, where both have room for it.
func (c *call) aligned(x, y *Tensor, shape []int) (px, py, order []int, last bool) {
	big, small := x, y
	if y.Len() > x.Len() || y.Len() == x.Len() && y.last {
		big, small = y, x
	}
	if big.last && len(shape) == 4 && slices.Equal(big.Shape, shape) {
		switch {
		case len(small.Shape) == 4:
			c.pixels(small)
			return physical(x), physical(y), []int{shape[0], shape[2], shape[3], shape[1]}, true
		case small.Len() == 1:
			one := func(t *Tensor) []int {
				if t == small {
					return []int{1}
				}
				return physical(t)
			}
			return one(x), one(y), []int{shape[0], shape[2], shape[3], shape[1]}, true
		}
	}
	c.unlast(x)
	c.unlast(y)
	return x.Shape, y.Shape, shape, false
}

// kernel is an operation of the backend, broadcast.
func (c *call) kernel(op kernels.BinaryOp, x, y *Tensor) *Tensor {
	shape := c.broadcast(x.Shape, y.Shape)
	px, py, order, last := c.aligned(x, y, shape)
	out := c.new(Float, shape...)
	out.last = last
	if len(out.F) == 0 {
		return out
	}
	c.spend(len(out.F))
	a, b := x.F, y.F
	if (op == kernels.Add || op == kernels.Mul) && len(b) > len(a) { // these commute, bit for bit
		a, b, px, py = b, a, py, px
	}
	if len(a) == len(out.F) && c.repeated(op, out.F, a, b, order, py) {
		return out
	}
	f := [...]func(x, y float32) float32{kernels.Add: ref.Add, kernels.Sub: ref.Sub, kernels.Mul: ref.Mul, kernels.Div: ref.Div}[op]
	paired(c, out.F, order, a, b, px, py, f)
	return out
}

// repeated is an operation whose first operand is whole, and whose second one is repeated over blocks of it: of
// shapes [a, 1, b] over [a, m, b].
func (c *call) repeated(op kernels.BinaryOp, out, a, b []float32, shape, by []int) bool {
	by = slices.Concat(slices.Repeat([]int{1}, len(shape)-len(by)), by)
	i, j := 0, len(shape)
	for i < j && by[i] == shape[i] { // leading axes that both have
		i++
	}
	for j > i && by[j-1] == shape[j-1] { // axes at the end that both have
		j--
	}
	for _, d := range by[i:j] {
		if d != 1 {
			return false
		}
	}
	outer, inner := volume(shape[:i]), volume(shape[j:])
	block := len(out) / max(outer, 1)
	switch {
	case inner < 16 && inner < block && outer > 1: // short rows: each by itself
		return false
	case block < 256 && outer > 1 && inner != block:
		return false
	}
	if inner == block { // nothing repeats
		outer, block = 1, len(out)
		inner = len(b)
	}
	if inner < 1<<12 && block >= 2*inner { // a kernel takes long rows faster
		t := c.new(Float, inner*min(block/inner, 1<<13/inner+1))
		defer c.drop(t)
		whole := block / len(t.F) * len(t.F)
		for k := range outer {
			tile(t.F, b[k*inner:(k+1)*inner], 1, inner, len(t.F)/inner)
			for _, part := range [2][2]int{{k * block, k*block + whole}, {k*block + whole, (k + 1) * block}} {
				lo, hi := part[0], part[1]
				if hi > lo {
					c.backend().Binary(&kernels.Binary{Op: op, X: span(a[lo:hi]), Y: span(t.F[:min(len(t.F), hi-lo)]), Z: span(out[lo:hi])})
				}
			}
		}
		return true
	}
	for k := range outer {
		c.backend().Binary(&kernels.Binary{Op: op, X: span(a[k*block : (k+1)*block]), Y: span(b[k*inner : (k+1)*inner]), Z: span(out[k*block : (k+1)*block])})
	}
	return true
}

// power has a base of any type and an exponent of any other.
func power(c *call) {
	x, y := c.plain(0), c.plain(1)
	if x.Type == String || y.Type == String || x.Type == Bool || y.Type == Bool {
		c.fail("inputs are %v and %v; numbers are needed", x, y)
	}
	if x.Type == Float && y.Len() == 1 && y.float(0) == 2 && len(y.Shape) <= len(x.Shape) {
		c.unary(x, kernels.Square)
		return
	}
	shape := c.broadcast(x.Shape, y.Shape)
	out := c.new(x.Type, shape...)
	both := func(i, j int) float64 {
		e := y.float(j)
		switch e {
		case 0.5:
			return math.Sqrt(x.float(i))
		case 2:
			return x.float(i) * x.float(i)
		}
		return portable.Pow(x.float(i), e)
	}
	c.places(shape, x.Shape, y.Shape, func(o, i, j int) {
		if x.I != nil && y.I != nil {
			out.I[o] = x.Type.wrap(whole(x.I[i], y.I[j]))
			return
		}
		out.set(o, both(i, j))
	})
	c.put(out)
}

// whole is a power of integers; a negative exponent gives 0, but of 1 and -1.
func whole(x, n int64) int64 {
	if n < 0 {
		switch x {
		case 1:
			return 1
		case -1:
			return 1 - 2*(n&1)
		}
		return 0
	}
	v := int64(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			v *= x
		}
		x *= x
	}
	return v
}

// places calls f for every element of a shape, with its places in two tensors that are repeated over it.
func (c *call) places(shape, as, bs []int, f func(o, i, j int)) {
	n := volume(shape)
	c.spend(n)
	if n == 0 {
		return
	}
	sa, sb := spread(as, shape), spread(bs, shape)
	da, db := 0, 0
	if r := len(shape); r > 0 {
		da, db = sa[r-1], sb[r-1]
	}
	width := n / rowsOf(shape)
	c.each(rowsOf(shape), 8*width, func(lo, hi int) {
		walk(shape, [][]int{sa, sb}, lo, hi, func(o int, at []int) {
			for k := range width {
				f(o+k, at[0]+k*da, at[1]+k*db)
			}
		})
	})
}

func modulo(c *call) {
	x, y := c.plain(0), c.plain(1)
	if x.Type != y.Type || x.Type == String || x.Type == Bool {
		c.fail("inputs are %v and %v; two of one type of numbers are needed", x, y)
	}
	fmod := c.flag("fmod", false)
	shape := c.broadcast(x.Shape, y.Shape)
	out := c.new(x.Type, shape...)
	c.places(shape, x.Shape, y.Shape, func(o, i, j int) {
		if x.I == nil {
			a, b := x.float(i), y.float(j)
			v := math.Mod(a, b)
			switch {
			case fmod || v != v:
			case v == 0:
				v = math.Copysign(0, b)
			case math.IsInf(b, 0) && (a < 0) != (b < 0):
				v = b
			case (v < 0) != (b < 0):
				v += b
			}
			out.set(o, v)
			return
		}
		a, b := x.I[i], y.I[j]
		switch {
		case b == 0:
			c.fail("an integer is divided by 0")
		case x.Type == Uint64:
			out.I[o] = int64(uint64(a) % uint64(b))
			return
		case b == -1:
			out.I[o] = 0
			return
		}
		v := a % b
		if !fmod && v != 0 && (v < 0) != (b < 0) {
			v += b
		}
		out.I[o] = v
	})
	c.put(out)
}

// bitShift is arithmetic to the right of signed integers. A shift by at least the width leaves nothing, or the sign.
func bitShift(c *call) {
	left := c.oneOf("direction", "", "LEFT", "RIGHT") == "LEFT"
	bitwise(func(x, n int64) int64 {
		switch {
		case uint64(n) > 63 && left:
			return 0
		case left:
			return x << n
		case c.in[0].Type == Uint64:
			return int64(uint64(x) >> min(uint64(n), 64))
		}
		return x >> min(uint64(n), 63)
	})(c)
}

func bitwise(f func(x, y int64) int64) func(c *call) {
	return func(c *call) {
		x, y := c.plain(0), c.plain(1)
		if x.Type != y.Type || !x.Type.isInt() {
			c.fail("inputs are %v and %v; two of one type of integers are needed", x, y)
		}
		shape := c.broadcast(x.Shape, y.Shape)
		out := c.new(x.Type, shape...)
		paired(c, out.I, shape, x.I, y.I, x.Shape, y.Shape, func(a, b int64) int64 { return x.Type.wrap(f(a, b)) })
		c.put(out)
	}
}

// extreme is the largest (sign 1) or the smallest (-1) of the inputs; a NaN of any is the answer.
func extreme(sign float64) func(c *call) {
	return func(c *call) {
		best := c.plain(0)
		for i := 1; i < len(c.in); i++ {
			y := c.plain(i)
			if y.Type != best.Type || y.Type == String {
				c.fail("inputs are %v and %v; numbers of one type are needed", best, y)
			}
			shape := c.broadcast(best.Shape, y.Shape)
			out := c.new(y.Type, shape...)
			x := best
			c.places(shape, x.Shape, y.Shape, func(o, i, j int) {
				if x.I != nil {
					a, b := x.I[i], y.I[j]
					if less(x.Type, a, b) == (sign > 0) {
						a = b
					}
					out.I[o] = a
					return
				}
				a, b := x.float(i), y.float(j)
				if a == a && (b != b || (b-a)*sign > 0 || b*sign == math.Inf(1)) {
					a = b
				}
				out.set(o, a)
			})
			if i > 1 {
				c.drop(best)
			}
			best = out
		}
		if best == c.in[0] {
			best = c.view(best, best.Shape...)
		}
		c.put(best)
	}
}

// less compares two integers of a type.
func less(t Type, a, b int64) bool {
	if t == Uint64 {
		_, borrow := bits.Sub64(uint64(a), uint64(b), 0)
		return borrow == 1
	}
	return a < b
}

// sum adds all inputs, from the first.
func (c *call) sum() *Tensor {
	best := c.at(0)
	for i := 1; i < len(c.in); i++ {
		x, y := best, c.at(i)
		if x.Type != y.Type {
			c.fail("inputs are %v and %v; floats of one type are needed", x, y)
		}
		c.floats(x)
		var out *Tensor
		if x.D != nil {
			shape := c.broadcast(x.Shape, y.Shape)
			out = c.new(Double, shape...)
			paired(c, out.D, shape, x.D, y.D, x.Shape, y.Shape, func(a, b float64) float64 { return a + b })
		} else {
			out = c.kernel(kernels.Add, x, y)
			out.Type = x.Type
			out.roundAll()
		}
		if i > 1 {
			c.drop(best)
		}
		best = out
	}
	if best == c.in[0] {
		best = c.view(best, best.Shape...)
	}
	return best
}

func mean(c *call) {
	s := c.sum()
	n := float64(len(c.in))
	out := c.like(s, s.Type)
	for i := range out.Len() {
		out.set(i, s.float(i)/n)
	}
	c.drop(s)
	c.put(out)
}
