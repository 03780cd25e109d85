package onnx

import (
	"math"
	"slices"
)

// Card: pools. Averages are float64 sums, rows first, divided once. MaxPool's indices count the elements of all
// of the input. Pictures stay channels last.

func pools() []operator {
	return []operator{
		{name: "MaxPool", least: 1, most: 1, run: maxPool},
		{name: "AveragePool", least: 1, most: 1, run: averagePool},
		{name: "LpPool", least: 1, most: 1, run: lpPool},
		{name: "GlobalAveragePool", least: 1, most: 1, run: globalAverage},
		{name: "GlobalMaxPool", least: 1, most: 1, run: globalPool(func(t *Tensor, at, n int) float64 {
			m := math.Inf(-1)
			for i := range n {
				m = math.Max(m, t.float(at+i))
			}
			return m
		})},
		{name: "GlobalLpPool", least: 1, most: 1, run: globalLp},
	}
}

func maxPool(c *call) {
	x := c.at(0)
	if x.Type == String || x.Type == Bool {
		c.fail("its input is %v", x)
	}
	g := c.window(x, nil, c.flag("ceil_mode", false))
	c.spend(x.Shape[0], x.Shape[1], volume(g.out), volume(g.kernel))
	if x.Type == Float && len(g.in) == 2 && !c.wants(1) {
		c.maxPoolPictures(x, g)
		return
	}
	c.unlast(x)
	out := c.new(x.Type, append([]int{x.Shape[0], x.Shape[1]}, g.out...)...)
	var places *Tensor
	if c.wants(1) {
		places = c.new(Int64, out.Shape...)
		c.out[1] = places
	}
	columns := c.int("storage_order", 0) == 1
	c.slide(x, g, func(o, base int, at []int, _ int) {
		if len(at) == 0 {
			out.set(o, math.Inf(-1))
			return
		}
		best := at[0]
		for _, i := range at[1:] {
			if x.I != nil && less(x.Type, x.I[base+best], x.I[base+i]) || x.I == nil && x.float(base+i) > x.float(base+best) {
				best = i
			}
		}
		out.copyElement(o, x, base+best)
		if places != nil {
			if columns {
				index, turned := make([]int, len(g.in)), 0
				unravel(index, best, g.in)
				for d := len(g.in) - 1; d >= 0; d-- {
					turned = turned*g.in[d] + index[d]
				}
				best = turned
			}
			places.I[o] = int64(base + best)
		}
	})
	c.put(out)
}

// maxPoolPictures is MaxPool of pictures, channels last.
func (c *call) maxPoolPictures(x *Tensor, g window) {
	n, ch := x.Shape[0], x.Shape[1]
	c.pixels(x)
	out := c.new(Float, n, ch, g.out[0], g.out[1])
	out.last = true
	c.each(n*g.out[0], g.out[1]*ch*g.kernel[0]*g.kernel[1]/2, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			s, oy := r/g.out[0], r%g.out[0]
			for ox := range g.out[1] {
				to := out.F[(r*g.out[1]+ox)*ch:][:ch]
				for i := range to {
					to[i] = float32(math.Inf(-1))
				}
				for p := range g.kernel[0] * g.kernel[1] {
					sy, sx := oy*g.stride[0]-g.low[0]+p/g.kernel[1]*g.dilation[0], ox*g.stride[1]-g.low[1]+p%g.kernel[1]*g.dilation[1]
					if sy < 0 || sy >= g.in[0] || sx < 0 || sx >= g.in[1] {
						continue
					}
					from := x.F[((s*g.in[0]+sy)*g.in[1]+sx)*ch:][:len(to)]
					for i, v := range from {
						to[i] = max(to[i], v)
					}
				}
			}
		}
	})
	c.put(out)
}

// slide calls f for every output of a pool: the places inside that it covers, and how many places of the kernel lie
// within the padded input.
func (c *call) slide(x *Tensor, g window, f func(out, base int, at []int, padded int)) {
	pixels, size, places := volume(g.out), volume(g.in), volume(g.kernel)
	step := strides(g.in)
	c.each(x.Shape[0]*x.Shape[1], 2*pixels*places, func(lo, hi int) {
		index, place, at := make([]int, len(g.out)), make([]int, len(g.out)), make([]int, 0, min(places, size))
		for r := lo; r < hi; r++ {
			for p := range pixels {
				unravel(index, p, g.out)
				at = at[:0]
				padded := 0
				for q := range places {
					unravel(place, q, g.kernel)
					within := true
					for d := range index {
						v := index[d]*g.stride[d] - g.low[d] + place[d]*g.dilation[d]
						within = within && v >= -g.low[d] && v < g.in[d]+g.high[d]
					}
					if within {
						padded++
					}
					if i, inside := g.place(index, place, step); inside {
						at = append(at, i)
					}
				}
				f(r*pixels+p, r*size, at, padded)
			}
		}
	})
}

func averagePool(c *call) {
	x := c.floats(c.at(0))
	g := c.window(x, nil, c.flag("ceil_mode", false))
	c.spend(x.Shape[0], x.Shape[1], volume(g.out), volume(g.kernel))
	all := c.flag("count_include_pad", false)
	if x.Type == Float && len(g.in) == 2 {
		c.averagePictures(x, g, all)
		return
	}
	c.unlast(x)
	out := c.new(x.Type, append([]int{x.Shape[0], x.Shape[1]}, g.out...)...)
	c.slide(x, g, func(o, base int, at []int, padded int) {
		s := 0.0
		for _, i := range at {
			s += x.float(base + i)
		}
		n := len(at)
		if all {
			n = padded
		}
		out.set(o, s/float64(max(n, 1)))
	})
	c.put(out)
}

// averagePictures is AveragePool of pictures, channels last.
func (c *call) averagePictures(x *Tensor, g window, all bool) {
	n, ch := x.Shape[0], x.Shape[1]
	c.pixels(x)
	out := c.new(Float, n, ch, g.out[0], g.out[1])
	out.last = true
	c.each(n*g.out[0], g.out[1]*ch*g.kernel[0]*g.kernel[1], func(lo, hi int) {
		sums := make([]float64, ch)
		for r := lo; r < hi; r++ {
			s, oy := r/g.out[0], r%g.out[0]
			for ox := range g.out[1] {
				clear(sums)
				count := 0
				for p := range g.kernel[0] * g.kernel[1] {
					sy, sx := oy*g.stride[0]-g.low[0]+p/g.kernel[1]*g.dilation[0], ox*g.stride[1]-g.low[1]+p%g.kernel[1]*g.dilation[1]
					within := sy < g.in[0]+g.high[0] && sx < g.in[1]+g.high[1]
					inside := sy >= 0 && sy < g.in[0] && sx >= 0 && sx < g.in[1]
					if inside || all && within {
						count++
					}
					if inside {
						for i, v := range x.F[((s*g.in[0]+sy)*g.in[1]+sx)*ch:][:ch] {
							sums[i] += float64(v)
						}
					}
				}
				to := out.F[(r*g.out[1]+ox)*ch:][:ch]
				for i, v := range sums {
					to[i] = float32(v / float64(max(count, 1)))
				}
			}
		}
	})
	c.put(out)
}

func lpPool(c *call) {
	x := c.floats(c.plain(0))
	g := c.window(x, nil, c.flag("ceil_mode", false))
	c.spend(x.Shape[0], x.Shape[1], volume(g.out), volume(g.kernel))
	p := float64(c.int("p", 2))
	out := c.new(x.Type, append([]int{x.Shape[0], x.Shape[1]}, g.out...)...)
	c.slide(x, g, func(o, base int, at []int, _ int) {
		s := 0.0
		for _, i := range at {
			s += power64(math.Abs(x.float(base+i)), p)
		}
		out.set(o, root64(s, p))
	})
	c.put(out)
}

// globalAverage is the mean over all pixels, in float64, rows first.
func globalAverage(c *call) {
	x := c.floats(c.at(0))
	c.rank(x, 2, 16)
	shape := append(slices.Clone(x.Shape[:2]), slices.Repeat([]int{1}, len(x.Shape)-2)...)
	out := c.new(x.Type, shape...)
	c.spend(x.Len())
	n, ch, size := x.Shape[0], x.Shape[1], volume(x.Shape[2:])
	if !x.last {
		c.each(n*ch, size, func(lo, hi int) {
			for r := lo; r < hi; r++ {
				s := 0.0
				for i := range size {
					s += x.float(r*size + i)
				}
				out.set(r, s/float64(size))
			}
		})
		c.put(out)
		return
	}
	const block = 16
	blocks := (ch + block - 1) / block
	c.each(n*blocks, size*block, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			s, c0 := r/blocks, r%blocks*block
			c1 := min(c0+block, ch)
			var sums [block]float64
			for p := range size {
				for i, v := range x.F[(s*size+p)*ch+c0 : (s*size+p)*ch+c1] {
					sums[i] += float64(v)
				}
			}
			for i := range c1 - c0 {
				out.set(s*ch+c0+i, sums[i]/float64(size))
			}
		}
	})
	c.put(out)
}

// globalPool is a function of all pixels of a channel.
func globalPool(f func(t *Tensor, at, n int) float64) func(c *call) {
	return func(c *call) {
		x := c.floats(c.plain(0))
		c.rank(x, 2, 16)
		out := c.new(x.Type, append(slices.Clone(x.Shape[:2]), slices.Repeat([]int{1}, len(x.Shape)-2)...)...)
		size := volume(x.Shape[2:])
		for r := range x.Shape[0] * x.Shape[1] {
			out.set(r, f(x, r*size, size))
		}
		c.put(out)
	}
}

func globalLp(c *call) {
	p := float64(c.int("p", 2))
	globalPool(func(t *Tensor, at, n int) float64 {
		s := 0.0
		for i := range n {
			s += power64(math.Abs(t.float(at+i)), p)
		}
		return root64(s, p)
	})(c)
}
