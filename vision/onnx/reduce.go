package onnx

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: reductions. Sums of floats are float64 sums over rising indices, rounded once; of integers exact to the
// type's bits. The largest and smallest of nothing are the type's limits, as the specification has them.

func reductions() []operator {
	return []operator{
		reduction("ReduceSum", func() (reducer, func(v float64, n int) float64) {
			return func(s, v float64) float64 { return s + v }, nil
		}, 0, func(s, v int64) int64 { return s + v }),
		reduction("ReduceMean", func() (reducer, func(v float64, n int) float64) {
			return func(s, v float64) float64 { return s + v }, func(s float64, n int) float64 { return s / float64(n) }
		}, 0, nil),
		reduction("ReduceProd", func() (reducer, func(v float64, n int) float64) {
			return func(s, v float64) float64 { return s * v }, nil
		}, 1, func(s, v int64) int64 { return s * v }),
		reduction("ReduceMax", func() (reducer, func(v float64, n int) float64) { return math.Max, nil }, math.Inf(-1), func(s, v int64) int64 { return max(s, v) }),
		reduction("ReduceMin", func() (reducer, func(v float64, n int) float64) { return math.Min, nil }, math.Inf(1), func(s, v int64) int64 { return min(s, v) }),
		reduction("ReduceL1", func() (reducer, func(v float64, n int) float64) {
			return func(s, v float64) float64 { return s + math.Abs(v) }, nil
		}, 0, func(s, v int64) int64 { return s + max(v, -v) }),
		reduction("ReduceL2", func() (reducer, func(v float64, n int) float64) {
			return func(s, v float64) float64 { return s + float64(v*v) }, func(s float64, _ int) float64 { return math.Sqrt(s) }
		}, 0, nil),
		reduction("ReduceSumSquare", func() (reducer, func(v float64, n int) float64) {
			return func(s, v float64) float64 { return s + float64(v*v) }, nil
		}, 0, func(s, v int64) int64 { return s + v*v }),
		reduction("ReduceLogSum", func() (reducer, func(v float64, n int) float64) {
			return func(s, v float64) float64 { return s + v }, func(s float64, _ int) float64 { return portable.Log(s) }
		}, 0, nil),
		{name: "ReduceLogSumExp", least: 1, most: 2, run: logSumExp},
		{name: "ArgMax", least: 1, most: 1, run: argument(1)},
		{name: "ArgMin", least: 1, most: 1, run: argument(-1)},
		{name: "CumSum", since: 11, least: 2, most: 2, run: cumulative(0, func(s, v float64) float64 { return s + v }, func(s, v int64) int64 { return s + v })},
		{name: "CumProd", since: 26, least: 2, most: 2, run: cumulative(1, func(s, v float64) float64 { return s * v }, func(s, v int64) int64 { return s * v })},
	}
}

type reducer = func(s, v float64) float64

// reduction is an operator that takes some axes together.
func reduction(name string, of func() (reducer, func(v float64, n int) float64), start float64, whole func(s, v int64) int64) operator {
	return operator{name: name, least: 1, most: 2, run: func(c *call) {
		f, end := of()
		c.reduce(start, f, end, whole)
	}}
}

// reduced is a tensor with some axes at the end, and the shape that is left.
func (c *call) reduced(x *Tensor) (turned *Tensor, n int, shape []int, nothing bool) {
	rank := len(x.Shape)
	list := c.listOr("axes", 1)
	if len(list) == 0 {
		if c.flag("noop_with_empty_axes", false) {
			return x, 1, x.Shape, true
		}
		list = seq(0, rank)
	}
	axes := c.axes(list, rank)
	slices.Sort(axes)
	keep := c.flag("keepdims", true)
	perm := []int{}
	n = 1
	for d, length := range x.Shape {
		switch {
		case !slices.Contains(axes, d):
			perm, shape = append(perm, d), append(shape, length)
			continue
		case keep:
			shape = append(shape, 1)
		}
		n *= length
	}
	if x.last && slices.Equal(axes, []int{1}) { // channels last already
		v := c.same(x)
		v.last, v.Shape = false, physical(x)
		return v, n, shape, false
	}
	return c.transpose(x, append(perm, axes...)), n, shape, false
}

func (c *call) reduce(start float64, f reducer, end func(v float64, n int) float64, whole func(s, v int64) int64) {
	x := c.at(0)
	if x.Type == String || x.Type == Bool && whole == nil {
		c.fail("its input is %v", x)
	}
	if pixels := []int{2, 3}; x.last && c.node.op == "ReduceMean" && x.Type == Float && slices.Equal(sorted(c.axesOf(4)), pixels) && c.flag("keepdims", true) {
		globalAverage(c)
		return
	}
	turned, n, shape, nothing := c.reduced(x)
	if nothing {
		turned = c.same(c.unlast(turned))
	}
	out := c.new(x.Type, shape...)
	c.spend(x.Len())
	c.each(out.Len(), 4*n, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			if x.I != nil && whole != nil {
				s := int64(start)
				if math.IsInf(start, 0) {
					low, high := x.Type.limits()
					if s = low; start > 0 {
						s = high
					}
				}
				for _, v := range turned.I[r*n : (r+1)*n] {
					s = whole(s, v)
				}
				out.I[r] = x.Type.wrap(s)
				continue
			}
			s := start
			if turned.F != nil {
				for _, v := range turned.F[r*n : (r+1)*n] {
					s = f(s, float64(v))
				}
			} else {
				for i := r * n; i < (r+1)*n; i++ {
					s = f(s, turned.float(i))
				}
			}
			if end != nil {
				s = end(s, n)
			}
			out.set(r, s)
		}
	})
	c.drop(turned)
	c.put(out)
}

// axesOf are the axes of a reduction.
func (c *call) axesOf(rank int) []int {
	list := c.listOr("axes", 1)
	if len(list) == 0 {
		return nil
	}
	return c.axes(list, rank)
}

func sorted(list []int) []int {
	slices.Sort(list)
	return list
}

func logSumExp(c *call) {
	x := c.plain(0)
	turned, n, shape, nothing := c.reduced(x)
	if nothing {
		turned = c.same(turned)
	}
	out := c.new(x.Type, shape...)
	c.each(out.Len(), 16*n, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			m, s := math.Inf(-1), 0.0
			for i := r * n; i < (r+1)*n; i++ {
				m = math.Max(m, turned.float(i))
			}
			if math.IsInf(m, 0) {
				out.set(r, m)
				continue
			}
			for i := r * n; i < (r+1)*n; i++ {
				s += portable.Exp(turned.float(i) - m)
			}
			out.set(r, m+portable.Log(s))
		}
	})
	c.drop(turned)
	c.put(out)
}

// argument is the place of the largest (sign 1) or smallest number of an axis.
func argument(sign float64) func(c *call) {
	return func(c *call) {
		x := c.plain(0)
		if x.Type == String || x.Type == Bool {
			c.fail("its input is %v", x)
		}
		a := c.axis(c.int("axis", 0), len(x.Shape))
		turned, n := c.moved(x, a, len(x.Shape)-1), x.Shape[a]
		if n == 0 {
			c.fail("axis %d of %v is empty", a, x)
		}
		shape := slices.Clone(x.Shape)
		if shape[a] = 1; !c.flag("keepdims", true) {
			shape = slices.Delete(shape, a, a+1)
		}
		last := c.flag("select_last_index", false)
		out := c.new(Int64, shape...)
		for r := range out.I {
			best := 0
			for i := 1; i < n; i++ {
				var d float64
				if x.I != nil {
					switch v, w := turned.I[r*n+i], turned.I[r*n+best]; {
					case less(x.Type, v, w):
						d = -sign
					case v != w:
						d = sign
					}
				} else {
					d = (turned.float(r*n+i) - turned.float(r*n+best)) * sign
				}
				if d > 0 || d == 0 && last {
					best = i
				}
			}
			out.I[r] = int64(best)
		}
		c.drop(turned)
		c.put(out)
	}
}

func cumulative(start float64, f reducer, whole func(s, v int64) int64) func(c *call) {
	return func(c *call) {
		x := c.plain(0)
		if x.Type == String || x.Type == Bool {
			c.fail("its input is %v", x)
		}
		a := c.axis(int(c.scalar(1, 0)), len(x.Shape))
		before, back := c.flag("exclusive", false), c.flag("reverse", false)
		out := c.new(x.Type, x.Shape...)
		n, inner := x.Shape[a], volume(x.Shape[a+1:])
		c.spend(x.Len())
		for r := range x.Len() / max(n, 1) {
			base := r/inner*n*inner + r%inner
			s, w := start, int64(start)
			for k := range n {
				i := base + k*inner
				if back {
					i = base + (n-1-k)*inner
				}
				if before {
					if x.I != nil {
						out.I[i] = x.Type.wrap(w)
					} else {
						out.set(i, s)
					}
				}
				if x.I != nil {
					w = whole(w, x.I[i])
				} else {
					s = f(s, x.float(i))
				}
				if !before {
					if x.I != nil {
						out.I[i] = x.Type.wrap(w)
					} else {
						out.set(i, s)
					}
				}
			}
		}
		c.put(out)
	}
}
