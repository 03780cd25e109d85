package onnx

import (
	"math"
	"slices"
)

// Card: Resize and Upsample, one axis after another. A place of the result has weights over places of the input: of
// one (nearest), two (linear), four (cubic), or, antialiased, as many as the scale says. Weights are float64; an
// axis's sums are float64 over rising indices and rounded to float.

func resizes() []operator {
	return []operator{
		{name: "Resize", since: 10, least: 1, most: 4, run: resize},
		{name: "Upsample", least: 1, most: 2, run: upsample},
	}
}

// A zoom says how places of a result lie over the input.
type zoom struct {
	mode, coordinates, nearest string
	cubic, extrapolation       float64
	outside, antialias         bool
}

func upsample(c *call) {
	x := c.at(0)
	scales := c.floatList(c.optional(1))
	if a := c.attribute("scales"); a != nil {
		for _, v := range a.Floats {
			scales = append(scales, float64(v))
		}
	}
	z := zoom{mode: c.oneOf("mode", "nearest", "nearest", "linear"), coordinates: "asymmetric", nearest: "floor"}
	c.resize(x, z, seq(0, len(x.Shape)), scales, nil, nil)
}

func (c *call) floatList(t *Tensor) []float64 {
	if t == nil {
		return nil
	}
	c.floats(t)
	out := make([]float64, t.Len())
	for i := range out {
		out[i] = t.float(i)
	}
	return out
}

func resize(c *call) {
	x := c.at(0)
	z := zoom{mode: c.oneOf("mode", "nearest", "nearest", "linear", "cubic"), cubic: c.number("cubic_coeff_a", -0.75), extrapolation: c.number("extrapolation_value", 0),
		outside: c.flag("exclude_outside", false), antialias: c.flag("antialias", false)}
	axes := seq(0, len(x.Shape))
	if c.opset == 10 {
		z.coordinates, z.nearest = "asymmetric", "simple"
		c.resize(x, z, axes, c.floatList(c.optional(1)), nil, nil)
		return
	}
	z.coordinates = c.oneOf("coordinate_transformation_mode", "half_pixel", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
		"tf_half_pixel_for_nn", "tf_crop_and_resize")
	z.nearest = c.oneOf("nearest_mode", "round_prefer_floor", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
	if given := c.ints("axes"); given != nil {
		axes = c.axes(given, len(x.Shape))
	}
	scales, sizes := c.floatList(c.optional(2)), c.list(3)
	if len(scales) > 0 && len(sizes) > 0 {
		c.fail("scales and sizes; one of them is needed")
	}
	var roi []float64
	if z.coordinates == "tf_crop_and_resize" {
		if roi = c.floatList(c.optional(1)); len(roi) != 2*len(axes) {
			c.fail("a region of %d numbers over %d axes", len(roi), len(axes))
		}
	}
	if policy := c.oneOf("keep_aspect_ratio_policy", "stretch", "stretch", "not_larger", "not_smaller"); policy != "stretch" && len(sizes) == len(axes) {
		best := 0.0
		for i, a := range axes {
			s := float64(sizes[i]) / float64(x.Shape[a])
			if i == 0 || policy == "not_larger" && s < best || policy == "not_smaller" && s > best {
				best = s
			}
		}
		scales = slices.Repeat([]float64{best}, len(axes))
		for i, a := range axes {
			sizes[i] = int(math.Floor(best*float64(x.Shape[a]) + 0.5))
		}
	}
	c.resize(x, z, axes, scales, sizes, roi)
}

// resize scales some axes.
func (c *call) resize(x *Tensor, z zoom, axes []int, scales []float64, sizes []int, roi []float64) {
	if len(sizes) == 0 && len(scales) != len(axes) || len(sizes) > 0 && len(sizes) != len(axes) {
		c.fail("%d scales and %d sizes over %d axes", len(scales), len(sizes), len(axes))
	}
	shape, factors := slices.Clone(x.Shape), make([]float64, len(x.Shape))
	for i, a := range axes {
		n, scale, out := x.Shape[a], 0.0, 0
		if len(sizes) > 0 {
			out = sizes[i]
			scale = float64(out) / float64(n)
			if len(scales) > 0 {
				scale = scales[i]
			}
		} else {
			if scale = scales[i]; !(scale > 0) || scale > 1<<20 {
				c.fail("a scale of %v", scale)
			}
			length := float64(float64(n) * scale)
			if z.coordinates == "tf_crop_and_resize" {
				length = float64(float64(n) * (roi[len(axes)+i] - roi[i]) * scale)
			}
			out = int(math.Floor(min(length, 1<<25)))
		}
		if out < 0 || n == 0 || out > 1<<24 {
			c.fail("an axis of %d as one of %d", n, out)
		}
		shape[a], factors[a] = out, scale
	}
	if n, err := checkedVolume(shape); err != nil || int64(n)*int64(x.Type.bytes()) > c.limits.Bytes {
		c.fail("%v as %v, which is more than %d bytes", x, shape, c.limits.Bytes)
	}
	lines := make([]line, len(x.Shape))
	for i, a := range axes {
		if shape[a] == x.Shape[a] && factors[a] == 1 && roi == nil {
			continue
		}
		start, end := 0.0, 1.0
		if roi != nil {
			start, end = roi[i], roi[len(axes)+i]
		}
		lines[a] = z.line(x.Shape[a], shape[a], factors[a], start, end)
	}
	if x.Type.isInt() && z.mode != "nearest" || x.Type == String {
		c.between8(x)
	}
	if z.mode == "nearest" {
		c.pick(x, shape, lines, z)
		return
	}
	c.unlast(x)
	now := c.view(x, x.Shape...)
	for a := range shape {
		if lines[a].first == nil {
			continue
		}
		next := slices.Clone(now.Shape)
		next[a] = shape[a]
		out := c.new(x.Type, next...)
		c.weigh(out, now, a, lines[a], z.extrapolation)
		c.drop(now)
		now = out
	}
	c.put(now)
}

// between8 refuses types that have no numbers between numbers.
func (c *call) between8(x *Tensor) {
	if x.Type != Uint8 && x.Type != Int8 && x.Type != Int32 {
		c.fail("an input %v by mode %q", x, c.text("mode", "nearest"))
	}
}

// A line has, for every place of a result, the first place of the input and the weights from there on.
type line struct {
	first   []int
	weights [][]float64
}

// line is an axis of n places as one of out places.
func (z zoom) line(n, out int, scale, start, end float64) line {
	l := line{first: make([]int, out), weights: make([][]float64, out)}
	for o := range out {
		x := z.place(o, n, out, scale, start, end)
		if z.coordinates == "tf_crop_and_resize" && (x < 0 || x > float64(n-1)) {
			l.first[o], l.weights[o] = -1, nil // the extrapolation value
			continue
		}
		switch z.mode {
		case "nearest":
			l.first[o] = min(max(z.round(x, scale), 0), n-1)
			l.weights[o] = []float64{1}
		default:
			l.first[o], l.weights[o] = z.taps(x, n, scale)
		}
	}
	return l
}

// place is where a place of the result lies in the input.
func (z zoom) place(o, n, out int, scale, start, end float64) float64 {
	x := float64(o)
	length := float64(scale * float64(n)) // of the result, whole or not
	switch z.coordinates {
	case "align_corners":
		if length == 1 || out == 1 {
			return 0
		}
		return float64(x*float64(n-1)) / (length - 1)
	case "asymmetric":
		return x / scale
	case "pytorch_half_pixel":
		if out == 1 {
			return -0.5
		}
	case "half_pixel_symmetric":
		centre := float64(n) / 2
		offset := float64(centre * (1 - float64(out)/length))
		return offset + (x+0.5)/scale - 0.5
	case "tf_half_pixel_for_nn":
		return (x + 0.5) / scale
	case "tf_crop_and_resize":
		if out == 1 {
			return float64(0.5 * (start + end) * float64(n-1))
		}
		return float64(start*float64(n-1)) + float64(x*(end-start)*float64(n-1))/float64(out-1)
	}
	return (x+0.5)/scale - 0.5
}

// round is the nearest place. Opset 10 says nothing; runtimes then take the next place where a picture shrinks.
func (z zoom) round(x, scale float64) int {
	switch z.nearest {
	case "simple":
		if scale < 1 {
			return int(math.Ceil(x))
		}
		return int(math.Floor(x))
	case "floor":
		return int(math.Floor(x))
	case "ceil":
		return int(math.Ceil(x))
	case "round_prefer_ceil":
		return int(math.Floor(x + 0.5))
	}
	return int(math.Ceil(x - 0.5))
}

// taps are the weights of a place between others. Places beyond the edge are the edge's, or, with exclude_outside,
// left out.
func (z zoom) taps(x float64, n int, scale float64) (first int, weights []float64) {
	stretch, reach := 1.0, 1.0
	if z.mode == "cubic" {
		reach = 2
	}
	if z.antialias && scale < 1 {
		stretch = scale
	}
	low := int(math.Floor(x-reach/stretch)) + 1
	high := int(math.Ceil(x+reach/stretch)) - 1
	if stretch == 1 { // the same places for whole numbers
		low = int(math.Floor(x)) - int(reach) + 1
		high = low + 2*int(reach) - 1
	}
	var sum float64
	raw := make([]float64, high-low+1)
	for i := range raw {
		at := low + i
		raw[i] = z.kernel((x - float64(at)) * stretch)
		if z.outside && (at < 0 || at >= n) {
			raw[i] = 0
		}
		sum += raw[i]
	}
	first = min(max(low, 0), n-1)
	last := min(max(high, 0), n-1)
	weights = make([]float64, last-first+1)
	for i, w := range raw {
		if z.outside || z.antialias && stretch < 1 {
			w /= sum
		}
		weights[min(max(low+i, 0), n-1)-first] += w
	}
	return first, weights
}

// kernel is the weight of a distance.
func (z zoom) kernel(d float64) float64 {
	d = math.Abs(d)
	if z.mode == "linear" {
		return math.Max(0, 1-d)
	}
	a, d2 := z.cubic, float64(d*d)
	d3 := float64(d2 * d)
	switch {
	case d <= 1:
		return float64((a+2)*d3) - float64((a+3)*d2) + 1
	case d < 2:
		return float64(a*d3) - float64(5*a*d2) + float64(8*a*d) - 4*a
	}
	return 0
}

// weigh sums along an axis.
func (c *call) weigh(out, x *Tensor, axis int, l line, outside float64) {
	outer, inner := volume(x.Shape[:axis]), volume(x.Shape[axis+1:])
	n, m := x.Shape[axis], out.Shape[axis]
	taps := 0
	for _, w := range l.weights {
		taps = max(taps, len(w))
	}
	c.spend(out.Len(), taps)
	c.each(outer*m, inner*taps*2, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			o, p := r/m, r%m
			first, weights := l.first[p], l.weights[p]
			for i := range inner {
				v := outside
				if weights != nil {
					v = 0
					for k, w := range weights {
						v += float64(w * x.float((o*n+first+k)*inner+i))
					}
				}
				if x.I != nil {
					v = math.RoundToEven(v)
				}
				out.set(r*inner+i, v)
			}
		}
	})
}

// pick takes the nearest places.
func (c *call) pick(x *Tensor, shape []int, lines []line, z zoom) {
	at := make([][]int, len(shape))
	for a := range shape {
		at[a] = lines[a].first
		if at[a] == nil {
			at[a] = seq(0, shape[a])
		}
	}
	out := c.new(x.Type, shape...)
	c.spend(out.Len())
	if x.last && shape[0] == x.Shape[0] && shape[1] == x.Shape[1] {
		out.last = true
		ch := shape[1]
		c.each(shape[0]*shape[2], shape[3]*ch, func(lo, hi int) {
			for r := lo; r < hi; r++ {
				sy := at[2][r%shape[2]]
				for ox, sx := range at[3] {
					to := out.F[(r*shape[3]+ox)*ch:][:ch]
					if sy < 0 || sx < 0 {
						for i := range to {
							to[i] = float32(z.extrapolation)
						}
						continue
					}
					copy(to, x.F[((r/shape[2]*x.Shape[2]+sy)*x.Shape[3]+sx)*ch:])
				}
			}
		})
		c.put(out)
		return
	}
	c.unlast(x)
	step := strides(x.Shape)
	index := make([]int, len(shape))
	for o := range out.Len() {
		unravel(index, o, shape)
		from, inside := 0, true
		for a, i := range index {
			inside = inside && at[a][i] >= 0
			from += max(at[a][i], 0) * step[a]
		}
		if !inside {
			out.set(o, z.extrapolation)
			continue
		}
		out.copyElement(o, x, from)
	}
	c.put(out)
}
