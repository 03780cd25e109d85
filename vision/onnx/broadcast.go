package onnx

import (
	"slices"
)

// broadcast is the common shape of several, by numpy's rule.
func (c *call) broadcast(shapes ...[]int) []int {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]int, rank)
	for i := range out {
		out[i] = 1
		for _, s := range shapes {
			k := i - rank + len(s)
			if k < 0 || s[k] == 1 {
				continue
			}
			if out[i] != 1 && out[i] != s[k] {
				c.fail("shapes %v do not broadcast", shapes)
			}
			out[i] = s[k]
		}
	}
	return out
}

// strides are the steps of a shape in memory.
func strides(shape []int) []int {
	out, step := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		out[i] = step
		step *= shape[i]
	}
	return out
}

// spread are the strides of a shape as it is repeated over another.
func spread(shape, over []int) []int {
	out, own := make([]int, len(over)), strides(shape)
	for i := range shape {
		if shape[i] != 1 {
			out[i+len(over)-len(shape)] = own[i]
		}
	}
	return out
}

// walk calls f for every run of elements along the last axis of a shape: out is its place in the shape, at are its
// places by other strides.
func walk(shape []int, steps [][]int, lo, hi int, f func(out int, at []int)) {
	rank := len(shape)
	if rank == 0 {
		f(0, make([]int, len(steps)))
		return
	}
	width := shape[rank-1]
	index := make([]int, rank-1)
	rest := lo
	for i := rank - 2; i >= 0; i-- {
		index[i] = rest % shape[i]
		rest /= shape[i]
	}
	at := make([]int, len(steps))
	for k, s := range steps {
		for i, v := range index {
			at[k] += v * s[i]
		}
	}
	for row := lo; row < hi; row++ {
		f(row*width, at)
		for i := rank - 2; i >= 0; i-- {
			index[i]++
			for k, s := range steps {
				at[k] += s[i]
			}
			if index[i] < shape[i] {
				break
			}
			for k, s := range steps {
				at[k] -= s[i] * shape[i]
			}
			index[i] = 0
		}
	}
}

// rows is the number of runs of walk.
func rowsOf(shape []int) int {
	if len(shape) == 0 {
		return 1
	}
	return volume(shape[:len(shape)-1])
}

// strided copies elements of a tensor to memory's order of a shape, where step are the tensor's strides over it and
// from its first element.
func strided[T any](c *call, to, data []T, shape, step []int, from int) {
	if len(to) == 0 {
		return
	}
	last := 0
	if len(step) > 0 {
		last = step[len(step)-1]
	}
	width := len(to) / rowsOf(shape)
	c.each(rowsOf(shape), width, func(lo, hi int) {
		walk(shape, [][]int{step}, lo, hi, func(out int, at []int) {
			row, p := to[out:out+width], from+at[0]
			if last == 1 {
				copy(row, data[p:p+width])
				return
			}
			for i := range row {
				row[i] = data[p]
				p += last
			}
		})
	})
}

// gatherStrided is strided of a tensor of any type.
func (c *call) gatherStrided(out, in *Tensor, shape, step []int, from int) {
	strided(c, out.F, in.F, shape, step, from)
	strided(c, out.D, in.D, shape, step, from)
	strided(c, out.I, in.I, shape, step, from)
	strided(c, out.S, in.S, shape, step, from)
}

// expand is a tensor repeated over a shape.
func (c *call) expand(t *Tensor, shape []int) *Tensor {
	c.unlast(t)
	if slices.Equal(t.Shape, shape) {
		return c.view(t, shape...)
	}
	out := c.new(t.Type, shape...)
	c.gatherStrided(out, t, shape, spread(t.Shape, shape), 0)
	return out
}

// paired is f over two broadcast operands, into out.
func paired[A, R any](c *call, out []R, shape []int, a, b []A, as, bs []int, f func(x, y A) R) {
	if len(out) == 0 {
		return
	}
	sa, sb := spread(as, shape), spread(bs, shape)
	da, db := 0, 0
	if n := len(shape); n > 0 {
		da, db = sa[n-1], sb[n-1]
	}
	width := len(out) / rowsOf(shape)
	c.each(rowsOf(shape), width, func(lo, hi int) {
		walk(shape, [][]int{sa, sb}, lo, hi, func(o int, at []int) {
			p, q := at[0], at[1]
			for i := range width {
				out[o+i] = f(a[p], b[q])
				p, q = p+da, q+db
			}
		})
	})
}
