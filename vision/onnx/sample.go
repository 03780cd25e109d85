package onnx

import (
	"math"
)

// Card: values between pixels. Bilinear and cubic sums are float64, rows first, rounded once.

func samplers() []operator {
	return []operator{
		{name: "GridSample", since: 16, least: 2, most: 2, run: gridSample},
		{name: "RoiAlign", since: 10, least: 3, most: 3, run: roiAlign},
	}
}

// bilinear is a picture's value between pixels; beyond the edge it is zero.
func bilinear(m []float32, h, w int, y, x float64) float64 {
	if y <= -1 || y >= float64(h) || x <= -1 || x >= float64(w) || y != y || x != x {
		return 0
	}
	y0, x0 := int(math.Floor(y)), int(math.Floor(x))
	fy, fx := y-float64(y0), x-float64(x0)
	at := func(y, x int) float64 {
		if y < 0 || y >= h || x < 0 || x >= w {
			return 0
		}
		return float64(m[y*w+x])
	}
	return float64((1-fy)*(float64((1-fx)*at(y0, x0))+float64(fx*at(y0, x0+1)))) + float64(fy*(float64((1-fx)*at(y0+1, x0))+float64(fx*at(y0+1, x0+1))))
}

// gridSample reads a tensor at places of a grid, whose numbers go from -1 to 1.
func gridSample(c *call) {
	x, grid := c.floats(c.plain(0)), c.floats(c.plain(1))
	n := len(x.Shape) - 2
	if n < 1 || n > 3 || len(grid.Shape) != n+2 || grid.Shape[n+1] != n || grid.Shape[0] != x.Shape[0] {
		c.fail("inputs are %v and %v", x, grid)
	}
	mode := c.oneOf("mode", "linear", "linear", "bilinear", "nearest", "cubic", "bicubic")
	padding := c.oneOf("padding_mode", "zeros", "zeros", "border", "reflection")
	corners := c.flag("align_corners", false)
	shape := append([]int{x.Shape[0], x.Shape[1]}, grid.Shape[1:n+1]...)
	out := c.new(x.Type, shape...)
	size, pixels := x.Shape[2:], volume(grid.Shape[1:n+1])
	c.spend(out.Len(), 1<<(2*n))
	step, all := strides(size), volume(size)
	fold := func(i, d int) int { // a whole place beyond the edge; -1: zero
		length := size[d]
		switch {
		case i >= 0 && i < length:
			return i
		case padding == "border":
			return min(max(i, 0), length-1)
		case padding == "reflection":
			low, high := -0.5, float64(length)-0.5
			if corners {
				low, high = 0, float64(length-1)
			}
			return min(max(int(math.RoundToEven(reflect(float64(i), low, high))), 0), length-1)
		}
		return -1
	}
	c.each(x.Shape[0]*x.Shape[1]*pixels, 64, func(lo, hi int) {
		at, weights := make([][]int, n), make([][]float64, n)
		for o := lo; o < hi; o++ {
			r, p := o/pixels, o%pixels
			for d := range n {
				length := float64(size[d])
				v := grid.float((r/x.Shape[1]*pixels+p)*n + n - 1 - d)
				if corners {
					v = (v + 1) / 2 * (length - 1)
				} else {
					v = (float64((v+1)*length) - 1) / 2
				}
				if v != v || math.Abs(v) > 1<<30 {
					v = -1 << 30
				}
				if mode != "cubic" && mode != "bicubic" {
					switch padding {
					case "border":
						v = math.Min(math.Max(v, 0), length-1)
					case "reflection":
						if corners {
							v = reflect(v, 0, length-1)
						} else {
							v = math.Min(math.Max(reflect(v, -0.5, length-0.5), 0), length-1)
						}
					}
				}
				at[d], weights[d] = at[d][:0], weights[d][:0]
				base := int(math.Floor(v))
				f := v - float64(base)
				switch mode {
				case "nearest":
					at[d], weights[d] = append(at[d], fold(int(math.RoundToEven(v)), d)), append(weights[d], 1)
				case "cubic", "bicubic":
					z := zoom{mode: "cubic", cubic: -0.75}
					for k := -1; k <= 2; k++ {
						at[d], weights[d] = append(at[d], fold(base+k, d)), append(weights[d], z.kernel(f-float64(k)))
					}
				default:
					at[d], weights[d] = append(at[d], fold(base, d), fold(base+1, d)), append(weights[d], 1-f, f)
				}
			}
			out.set(o, between(x, r*all, step, at, weights))
		}
	})
	c.put(out)
}

// between sums over the places of all axes, the first outermost.
func between(x *Tensor, base int, step []int, at [][]int, weights [][]float64) float64 {
	if len(at) == 0 {
		return x.float(base)
	}
	s := 0.0
	for k, i := range at[0] {
		if i >= 0 {
			s += float64(weights[0][k] * between(x, base+i*step[0], step[1:], at[1:], weights[1:]))
		}
	}
	return s
}

// reflect folds a number into [low, high].
func reflect(v, low, high float64) float64 {
	span := high - low
	if span <= 0 {
		return low
	}
	v = math.Mod(math.Abs(v-low), 2*span)
	if v > span {
		v = 2*span - v
	}
	return v + low
}

// roiAlign is the mean, or the largest, of values in the cells of boxes.
func roiAlign(c *call) {
	x, rois, batch := c.floats(c.plain(0)), c.floats(c.plain(1)), c.list(2)
	c.rank(x, 4, 4)
	h, w, ch := x.Shape[2], x.Shape[3], x.Shape[1]
	oh, ow, ratio, scale := c.int("output_height", 1), c.int("output_width", 1), c.int("sampling_ratio", 0), c.number("spatial_scale", 1)
	most := c.oneOf("mode", "avg", "avg", "max") == "max"
	offset := 0.0
	usual := "half_pixel"
	if c.opset < 16 {
		usual = "output_half_pixel"
	}
	if half := c.oneOf("coordinate_transformation_mode", usual, "half_pixel", "output_half_pixel") == "half_pixel"; half {
		offset = 0.5
	}
	if len(rois.Shape) != 2 || rois.Shape[1] != 4 || len(batch) != rois.Shape[0] || oh < 1 || ow < 1 || ratio < 0 || max(oh, ow, ratio) > 1<<12 {
		c.fail("boxes %v of %d pictures as %d x %d", rois, len(batch), oh, ow)
	}
	out := c.new(x.Type, rois.Shape[0], ch, oh, ow)
	for r, s := range batch {
		if s < 0 || s >= x.Shape[0] {
			c.fail("a box of picture %d of %d", s, x.Shape[0])
		}
		x0, y0 := float64(rois.float(4*r)*scale)-offset, float64(rois.float(4*r+1)*scale)-offset
		bw, bh := float64(rois.float(4*r+2)*scale)-offset-x0, float64(rois.float(4*r+3)*scale)-offset-y0
		if offset == 0 {
			bw, bh = math.Max(bw, 1), math.Max(bh, 1)
		}
		bw, bh = bw/float64(ow), bh/float64(oh)
		ny, nx := ratio, ratio
		if ratio == 0 {
			ny, nx = int(math.Ceil(math.Min(bh, 4096))), int(math.Ceil(math.Min(bw, 4096)))
		}
		c.spend(ch, oh, ow, max(ny, 1), max(nx, 1))
		for k := range ch {
			for i := range oh * ow {
				sum, best := 0.0, math.Inf(-1)
				for sy := range ny {
					for sx := range nx {
						y := y0 + float64(float64(i/ow)*bh) + float64((float64(sy)+0.5)*bh)/float64(ny)
						xx := x0 + float64(float64(i%ow)*bw) + float64((float64(sx)+0.5)*bw)/float64(nx)
						v, top := c.roiValue(x, (s*ch+k)*h*w, h, w, y, xx)
						sum, best = sum+v, math.Max(best, top)
					}
				}
				v := sum / float64(max(ny*nx, 1))
				if most {
					v = best
				}
				out.set((r*ch+k)*oh*ow+i, v)
			}
		}
	}
	c.put(out)
}

// roiValue is the value between pixels, and the largest of its four weighted parts.
func (c *call) roiValue(x *Tensor, base, h, w int, y, xx float64) (sum, top float64) {
	if y < -1 || y > float64(h) || xx < -1 || xx > float64(w) || y != y || xx != xx {
		return 0, 0
	}
	y, xx = math.Max(y, 0), math.Max(xx, 0)
	y0, x0 := min(int(y), h-1), min(int(xx), w-1)
	y1, x1 := min(y0+1, h-1), min(x0+1, w-1)
	if y0 == h-1 {
		y = float64(y0)
	}
	if x0 == w-1 {
		xx = float64(x0)
	}
	fy, fx := y-float64(y0), xx-float64(x0)
	top = math.Inf(-1)
	for _, p := range [4]struct {
		y, x int
		w    float64
	}{{y0, x0, (1 - fy) * (1 - fx)}, {y0, x1, (1 - fy) * fx}, {y1, x0, fy * (1 - fx)}, {y1, x1, fy * fx}} {
		v := float64(p.w * x.float(base+p.y*w+p.x))
		sum, top = sum+v, math.Max(top, v)
	}
	return sum, top
}
