package onnx

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Card: convolutions, of any number of axes, groups, strides and dilations. A pixel is one chain of fp32 fused
// multiply-adds over the kernel's places, rows first, and for each place over the input channels of the group;
// padding is zeros that are multiplied. Pictures lie channels last. Three ways lead to these same bits: the backend's
// Conv, its Depthwise, where each channel has a kernel of its own, and a product over gathered patches. ConvTranspose
// is one product, whose columns are added to their places in rising order.

func convolutions() []operator {
	return []operator{
		{name: "Conv", least: 2, most: 3, run: conv},
		{name: "ConvTranspose", least: 2, most: 3, run: convTranspose},
		{name: "DeformConv", since: 19, least: 3, most: 5, run: deformConv},
	}
}

// A window is the geometry of convolutions and pools over spatial axes.
type window struct {
	kernel, stride, dilation []int
	low, high                []int // padding
	in, out                  []int // lengths
}

// window reads the attributes that convolutions and pools share.
func (c *call) window(x *Tensor, kernel []int, ceil bool) window {
	n := len(x.Shape) - 2
	if n < 1 {
		c.fail("its input is %v; [N, C] and at least one axis are needed", x)
	}
	if given := c.ints("kernel_shape"); given != nil && kernel != nil && !slices.Equal(given, kernel) {
		c.fail("kernel_shape is %v, and the weight's %v", given, kernel)
	} else if kernel == nil {
		kernel = given
	}
	w := window{kernel: kernel, stride: c.ints("strides"), dilation: c.ints("dilations"), in: x.Shape[2:]}
	for _, list := range []*[]int{&w.stride, &w.dilation} {
		if *list == nil {
			*list = slices.Repeat([]int{1}, n)
		}
	}
	pads := c.ints("pads")
	if len(pads) == 0 {
		pads = make([]int, 2*n)
	}
	if len(w.kernel) != n || len(w.stride) != n || len(w.dilation) != n || len(pads) != 2*n {
		c.fail("kernel_shape %v, strides %v, dilations %v and pads %v over %d axes", w.kernel, w.stride, w.dilation, pads, n)
	}
	w.low, w.high = slices.Clone(pads[:n]), slices.Clone(pads[n:])
	auto := c.oneOf("auto_pad", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
	for i := range n {
		if w.kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 || w.low[i] < 0 || w.high[i] < 0 ||
			max(w.kernel[i], w.stride[i], w.dilation[i], w.low[i], w.high[i]) > 1<<20 {
			c.fail("kernel_shape %v, strides %v, dilations %v, pads %v", w.kernel, w.stride, w.dilation, pads)
		}
		reach := (w.kernel[i]-1)*w.dilation[i] + 1
		out := 0
		switch auto {
		case "SAME_UPPER", "SAME_LOWER":
			out = (w.in[i] + w.stride[i] - 1) / w.stride[i]
			pad := max(0, (out-1)*w.stride[i]+reach-w.in[i])
			w.low[i], w.high[i] = pad/2, pad-pad/2
			if auto == "SAME_LOWER" {
				w.low[i], w.high[i] = w.high[i], w.low[i]
			}
		case "VALID":
			w.low[i], w.high[i] = 0, 0
			fallthrough
		default:
			room := w.in[i] + w.low[i] + w.high[i] - reach
			if room < 0 {
				c.fail("a kernel of %d places, dilation %d, over %d and padding %d + %d", w.kernel[i], w.dilation[i], w.in[i], w.low[i], w.high[i])
			}
			out = room/w.stride[i] + 1
			if ceil && room%w.stride[i] > 0 && out*w.stride[i] < w.in[i]+w.low[i] {
				out++
			}
		}
		w.out = append(w.out, out)
	}
	return w
}

// weights are a constant weight in the backend's layout.
type weights struct {
	packed *kernels.Packed // of all
	groups []*kernels.Packed
	rows   []float32 // [Out, places, In/group]
	turned []float32 // depthwise: [places, C]
}

// arranged is a weight [Out, In/group, places] as [Out, places, In/group].
func arranged(w *Tensor) []float32 {
	o, in := w.Shape[0], w.Shape[1]
	places := volume(w.Shape[2:])
	rows := make([]float32, len(w.F))
	for k := range o {
		for i := range in {
			for p := range places {
				rows[(k*places+p)*in+i] = w.F[(k*in+i)*places+p]
			}
		}
	}
	return rows
}

// weights are those of a node, kept where the weight is a constant.
func (c *call) weights(w *Tensor) *weights {
	if kept := c.model.packed[w]; kept != nil {
		return kept
	}
	own := &weights{rows: arranged(c.unlast(w))}
	if c.isConstant(w) {
		c.model.packed[w] = own
	}
	return own
}

// isConstant reports whether a tensor is one of the file.
func (c *call) isConstant(w *Tensor) bool {
	for _, name := range c.node.inputs {
		if name != "" && c.model.constants[name] == w {
			return true
		}
	}
	return false
}

func conv(c *call) {
	x, w := c.at(0), c.at(1)
	c.need(x, Float, Float16, BFloat16, Double)
	if len(x.Shape) < 3 || len(w.Shape) != len(x.Shape) || x.Type != w.Type {
		c.fail("inputs are %v and %v", x, w)
	}
	group, o := c.int("group", 1), w.Shape[0]
	if group < 1 || x.Shape[1] != w.Shape[1]*group || o%group != 0 {
		c.fail("%v channels in %d groups, and a weight %v", x, group, w)
	}
	g := c.window(x, w.Shape[2:], false)
	bias := c.optional(2)
	if bias != nil && (bias.Type != x.Type || bias.Len() != o) {
		c.fail("a bias %v of %d outputs", bias, o)
	}
	c.spend(x.Shape[0], volume(g.out), o, w.Shape[1], volume(g.kernel))
	if x.Type == Double {
		c.put(c.conv64(x, w, bias, g, group))
		return
	}
	out := c.new(x.Type, append([]int{x.Shape[0], o}, g.out...)...)
	if out.Len() == 0 {
		c.put(out)
		return
	}
	var b []float32
	if bias != nil {
		b = c.unlast(bias).F
	}
	switch {
	case len(g.in) == 1:
		x = c.view(x, x.Shape[0], x.Shape[1], 1, x.Shape[2])
		defer c.drop(x)
		g = g.under()
		out.Shape = []int{x.Shape[0], o, 1, g.out[1]}
		defer func() { c.unlast(out); out.Shape = slices.Delete(out.Shape, 2, 3) }()
	case len(g.in) > 2:
		c.convMany(out, x, w, b, g, group)
		out.roundAll()
		c.put(out)
		return
	}
	c.conv2(out, x, c.weights(w), b, g, group)
	out.roundAll()
	c.put(out)
}

// under is a window of one axis as one of two.
func (g window) under() window {
	one := func(list []int, v int) []int { return append([]int{v}, list...) }
	return window{kernel: one(g.kernel, 1), stride: one(g.stride, 1), dilation: one(g.dilation, 1), low: one(g.low, 0), high: one(g.high, 0), in: one(g.in, 1), out: one(g.out, 1)}
}

// conv2 is a convolution of pictures.
func (c *call) conv2(out, x *Tensor, w *weights, bias []float32, g window, group int) {
	n, in, o := x.Shape[0], x.Shape[1], out.Shape[1]
	act := c.node.act
	c.pixels(x)
	out.last = true
	same := g.stride[0] == g.stride[1] && g.dilation[0]*g.dilation[1] == 1
	switch {
	case group == in && o == in:
		c.depthwise(out, x, w, bias, g)
	case group == 1 && same:
		shape := kernels.ConvShape{In: in, Out: o, KH: g.kernel[0], KW: g.kernel[1], Stride: g.stride[0], Top: g.low[0], Left: g.low[1], Bottom: g.high[0], Right: g.high[1]}
		if oh, ow := shape.OutSize(g.in[0], g.in[1]); oh != g.out[0] || ow != g.out[1] {
			c.fail("%v of %v gives %d x %d", g, x, oh, ow)
		}
		a := &kernels.Conv{Shape: shape, X: span(x.F), Y: span(out.F), N: n, H: g.in[0], W: g.in[1], Bias: span(bias), Act: act}
		if r := c.residual(out); r != nil {
			a.Residual = span(r.F)
		}
		if w.packed == nil || w.packed.Conv != shape {
			w.packed = c.backend().PackConv(span(w.rows), shape, kernels.MathF32)
		}
		a.Packed = w.packed
		c.backend().Conv(a)
		return
	default:
		c.gathered(out, x, w, bias, g, group)
	}
	if act != kernels.Identity {
		c.backend().Unary(&kernels.Unary{Op: act, X: span(out.F), Y: span(out.F)})
	}
	if r := c.residual(out); r != nil {
		c.backend().Binary(&kernels.Binary{Op: kernels.Add, X: span(out.F), Y: span(r.F), Z: span(out.F)})
	}
}

// residual is the term of a convolution's result, channels last.
func (c *call) residual(out *Tensor) *Tensor {
	if !c.node.residual {
		return nil
	}
	r := c.at(3)
	if r.Type != out.Type || !slices.Equal(r.Shape, out.Shape) {
		c.fail("%v is added to %v", r, out)
	}
	return c.pixels(r)
}

// gathered is a convolution as products over patches, a group at a time.
func (c *call) gathered(out, x *Tensor, w *weights, bias []float32, g window, group int) {
	n, in, o := x.Shape[0], x.Shape[1]/group, out.Shape[1]/group
	places, pixels := g.kernel[0]*g.kernel[1], g.out[0]*g.out[1]
	k := places * in
	if w.groups == nil {
		for i := range group {
			w.groups = append(w.groups, c.backend().Pack(mat(w.rows[i*o*k:(i+1)*o*k], o, k), kernels.MathF32))
		}
	}
	rows := max(1, min(g.out[0], 1<<18/max(1, k*g.out[1]))) // of output lines at once
	patches := c.new(Float, rows*g.out[1]*k)
	wide := x.Shape[1]
	for s := range n {
		for i := range group {
			for y0 := 0; y0 < g.out[0]; y0 += rows {
				y1 := min(y0+rows, g.out[0])
				c.each(y1-y0, g.out[1]*k, func(lo, hi int) {
					for y := y0 + lo; y < y0+hi; y++ {
						for p := range places {
							dy, dx := p/g.kernel[1], p%g.kernel[1]
							sy := y*g.stride[0] - g.low[0] + dy*g.dilation[0]
							for ox := range g.out[1] {
								to := patches.F[((y-y0)*g.out[1]+ox)*k+p*in:][:in]
								sx := ox*g.stride[1] - g.low[1] + dx*g.dilation[1]
								if sy < 0 || sy >= g.in[0] || sx < 0 || sx >= g.in[1] {
									clear(to)
									continue
								}
								copy(to, x.F[((s*g.in[0]+sy)*g.in[1]+sx)*wide+i*in:])
							}
						}
					}
				})
				at := (s*pixels+y0*g.out[1])*out.Shape[1] + i*o
				count := (y1 - y0) * g.out[1]
				to := kernels.Mat{Span: span(out.F[at : at+(count-1)*out.Shape[1]+o]), Rows: count, Cols: o, Stride: out.Shape[1]}
				m := &kernels.Gemm{Layout: kernels.NT, A: mat(patches.F, count, k), C: to, W: w.groups[i]}
				if bias != nil {
					m.Bias = span(bias[i*o : (i+1)*o])
				}
				c.backend().Gemm(m)
			}
		}
	}
	c.drop(patches)
}

// depthwise is a convolution in which each channel has a kernel of its own. Its padding is copied around the pixels.
func (c *call) depthwise(out, x *Tensor, w *weights, bias []float32, g window) {
	n, ch := x.Shape[0], x.Shape[1]
	places := g.kernel[0] * g.kernel[1]
	h, wide := g.in[0]+g.low[0]+g.high[0], g.in[1]+g.low[1]+g.high[1]
	padded := x.F
	if h != g.in[0] || wide != g.in[1] {
		t := c.new(Float, n, h, wide*ch)
		defer c.drop(t)
		padded = t.F
		c.each(n*h, wide*ch, func(lo, hi int) {
			for r := lo; r < hi; r++ {
				line, y := padded[r*wide*ch:(r+1)*wide*ch], r%h-g.low[0]
				if y < 0 || y >= g.in[0] {
					clear(line)
					continue
				}
				clear(line[:g.low[1]*ch])
				copy(line[g.low[1]*ch:], x.F[(r/h*g.in[0]+y)*g.in[1]*ch:][:g.in[1]*ch])
				clear(line[(g.low[1]+g.in[1])*ch:])
			}
		})
	}
	if w.turned == nil {
		w.turned = make([]float32, places*ch)
		for k := range ch {
			for p := range places {
				w.turned[p*ch+k] = w.rows[k*places+p]
			}
		}
	}
	a := &kernels.Depthwise{X: span(padded), Y: span(out.F), N: n, H: h, W: wide, C: ch, KH: g.kernel[0], KW: g.kernel[1],
		StrideY: g.stride[0], StrideX: g.stride[1], DilationY: g.dilation[0], DilationX: g.dilation[1],
		Weight: span(w.turned), Bias: span(bias)}
	if oh, ow := a.OutSize(); oh != g.out[0] || ow != g.out[1] {
		c.fail("%v of %v gives %d x %d", g, x, oh, ow)
	}
	c.backend().Depthwise(a)
}

// tile repeats each of some rows of numbers.
func tile(to, from []float32, rows, n, times int) {
	for r := range rows {
		line := to[r*n*times : (r+1)*n*times]
		for filled := copy(line, from[r*n:(r+1)*n]); filled < len(line); {
			filled += copy(line[filled:], line[:filled])
		}
	}
}

// convMany is a convolution of more than two axes, by gathered patches in the plain order of axes.
func (c *call) convMany(out, x, w *Tensor, bias []float32, g window, group int) {
	c.unlast(x)
	own := c.weights(w)
	n, in, o := x.Shape[0], x.Shape[1]/group, w.Shape[0]/group
	places, pixels, size := volume(g.kernel), volume(g.out), volume(g.in)
	k := places * in
	c.check(c.roomFor(pixels * k))
	patches := c.new(Float, pixels, k)
	product := c.new(Float, pixels, o)
	step := strides(g.in)
	for s := range n {
		for i := range group {
			base := (s*x.Shape[1] + i*in) * size
			c.each(pixels, k, func(lo, hi int) {
				index, place := make([]int, len(g.out)), make([]int, len(g.out))
				for p := lo; p < hi; p++ {
					unravel(index, p, g.out)
					for q := range places {
						unravel(place, q, g.kernel)
						at, inside := g.place(index, place, step)
						to := patches.F[p*k+q*in:][:in]
						for ch := range to {
							to[ch] = 0
							if inside {
								to[ch] = x.F[base+ch*size+at]
							}
						}
					}
				}
			})
			c.backend().Gemm(&kernels.Gemm{Layout: kernels.NT, A: mat(patches.F, pixels, k), B: mat(own.rows[i*o*k:(i+1)*o*k], o, k), C: mat(product.F, pixels, o)})
			for ch := range o {
				to := out.F[(s*w.Shape[0]+i*o+ch)*pixels:][:pixels]
				for p := range to {
					to[p] = product.F[p*o+ch]
					if bias != nil {
						to[p] += bias[i*o+ch]
					}
				}
			}
		}
	}
	c.drop(patches)
	c.drop(product)
}

// unravel is the index of an element of a shape.
func unravel(index []int, at int, shape []int) {
	for i := len(shape) - 1; i >= 0; i-- {
		index[i] = at % shape[i]
		at /= shape[i]
	}
}

// place is where a place of the kernel lies for an output, and whether that is inside.
func (g window) place(out, place, step []int) (at int, inside bool) {
	for i := range out {
		v := out[i]*g.stride[i] - g.low[i] + place[i]*g.dilation[i]
		if v < 0 || v >= g.in[i] {
			return 0, false
		}
		at += v * step[i]
	}
	return at, true
}

// roomFor is an error where elements are more than memory may hold.
func (c *call) roomFor(n int) error {
	_, err := checkedVolume([]int{n})
	return err
}

// conv64 is a convolution of double.
func (c *call) conv64(x, w, bias *Tensor, g window, group int) *Tensor {
	out := c.new(Double, append([]int{x.Shape[0], w.Shape[0]}, g.out...)...)
	in, o := w.Shape[1], w.Shape[0]
	places, pixels, size := volume(g.kernel), volume(g.out), volume(g.in)
	step := strides(g.in)
	c.each(x.Shape[0]*o, pixels*places*in, func(lo, hi int) {
		index, place := make([]int, len(g.out)), make([]int, len(g.out))
		for r := lo; r < hi; r++ {
			s, k := r/o, r%o
			base := (s*x.Shape[1] + k/(o/group)*in) * size
			for p := range pixels {
				unravel(index, p, g.out)
				v := 0.0
				for q := range places {
					unravel(place, q, g.kernel)
					if at, inside := g.place(index, place, step); inside {
						for i := range in {
							v += float64(x.D[base+i*size+at] * w.D[(k*in+i)*places+q])
						}
					}
				}
				if bias != nil {
					v += bias.D[k]
				}
				out.D[r*pixels+p] = v
			}
		}
	})
	return out
}

// convTranspose is the adjoint of a convolution: a product of every input pixel with the weight, added to its places.
func convTranspose(c *call) {
	x, w := c.at(0), c.plain(1)
	c.need(x, Float, Float16, BFloat16)
	n := len(x.Shape) - 2
	if n < 1 || len(w.Shape) != len(x.Shape) || w.Type != x.Type || w.Shape[0] != x.Shape[1] {
		c.fail("inputs are %v and %v", x, w)
	}
	group := c.int("group", 1)
	if group < 1 || x.Shape[1]%group != 0 {
		c.fail("%v in %d groups", x, group)
	}
	g := c.transposed(x, w, n)
	in, o := x.Shape[1]/group, w.Shape[1]
	bias := c.optional(2)
	if bias != nil && (bias.Type != x.Type || bias.Len() != o*group) {
		c.fail("a bias %v of %d outputs", bias, o*group)
	}
	places, size, pixels := volume(g.kernel), volume(g.in), volume(g.out)
	c.spend(x.Shape[0], size, x.Shape[1], o, places)
	c.check(c.roomFor(size * o * places))
	// The input as rows of pixels, whatever its axes.
	var rows *Tensor
	if n == 2 {
		c.pixels(x)
		rows = &Tensor{F: x.F}
	} else {
		rows = c.transpose(c.unlast(x), append(append([]int{0}, seq(2, n)...), 1))
		defer c.drop(rows)
	}
	product := c.new(Float, size, places*o)
	defer c.drop(product)
	turned := make([]float32, places*o*in)
	wide := o * group
	sums := c.new(Float, x.Shape[0], pixels, wide) // channels last
	for i := range group {
		for p := range places { // [places, O, In]
			for k := range o {
				for ch := range in {
					turned[(p*o+k)*in+ch] = w.F[((i*in+ch)*o+k)*places+p]
				}
			}
		}
		var b []float32
		if bias != nil {
			b = c.unlast(bias).F[i*o : (i+1)*o]
		}
		for s := range x.Shape[0] {
			if size == 0 {
				continue
			}
			from := rows.F[s*size*x.Shape[1]+i*in:]
			a := kernels.Mat{Span: span(from[:(size-1)*x.Shape[1]+in]), Rows: size, Cols: in, Stride: x.Shape[1]}
			c.backend().Gemm(&kernels.Gemm{Layout: kernels.NT, A: a, B: mat(turned, places*o, in), C: mat(product.F, size, places*o)})
			c.collect(sums.F[s*pixels*wide+i*o:], wide, product.F, b, o, g)
		}
	}
	sums.roundAll()
	shape := append([]int{x.Shape[0], wide}, g.out...)
	if n == 2 {
		sums.Type, sums.Shape, sums.last = x.Type, shape, true
		c.put(sums)
		return
	}
	out := c.new(x.Type, shape...)
	for s := range x.Shape[0] {
		c.transpose2(out.F[s*pixels*wide:(s+1)*pixels*wide], sums.F[s*pixels*wide:(s+1)*pixels*wide], pixels, wide)
	}
	c.drop(sums)
	c.put(out)
}

// collect adds, to every pixel of a transposed convolution, the places of all inputs that reach it, in the inputs'
// order.
func (c *call) collect(to []float32, wide int, product, bias []float32, o int, g window) {
	n := len(g.out)
	step, places := strides(g.in), volume(g.kernel)
	kernelStep := strides(g.kernel)
	c.each(volume(g.out), 2*places*o, func(lo, hi int) {
		index := make([]int, n)
		var add func(d, at, place int, row []float32)
		add = func(d, at, place int, row []float32) {
			if d == n {
				for i, v := range product[(at*places+place)*o:][:o] {
					row[i] += v
				}
				return
			}
			reach := index[d] + g.low[d]
			for i := max(0, (reach-(g.kernel[d]-1)*g.dilation[d]+g.stride[d]-1)/g.stride[d]); i < g.in[d] && i*g.stride[d] <= reach; i++ {
				if k := reach - i*g.stride[d]; k%g.dilation[d] == 0 && k/g.dilation[d] < g.kernel[d] {
					add(d+1, at+i*step[d], place+k/g.dilation[d]*kernelStep[d], row)
				}
			}
		}
		for p := lo; p < hi; p++ {
			unravel(index, p, g.out)
			row := to[p*wide : p*wide+o]
			clear(row)
			add(0, 0, 0, row)
			for i, v := range bias {
				row[i] += v
			}
		}
	})
}

// seq is n numbers from one on.
func seq(from, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = from + i
	}
	return out
}

// transposed is the geometry of ConvTranspose: out of it are the lengths of the result.
func (c *call) transposed(x, w *Tensor, n int) window {
	ones := slices.Repeat([]int{1}, n)
	or := func(list, usual []int) []int {
		if len(list) == 0 {
			return usual
		}
		return list
	}
	g := window{kernel: w.Shape[2:], stride: or(c.ints("strides"), ones), dilation: or(c.ints("dilations"), ones), in: x.Shape[2:]}
	pads, extra, want := or(c.ints("pads"), make([]int, 2*n)), or(c.ints("output_padding"), make([]int, n)), c.ints("output_shape")
	if len(want) == n+2 {
		want = want[2:]
	}
	if len(g.stride) != n || len(g.dilation) != n || len(pads) != 2*n || len(extra) != n || want != nil && len(want) != n {
		c.fail("strides %v, dilations %v, pads %v, output_padding %v, output_shape %v over %d axes", g.stride, g.dilation, pads, extra, want, n)
	}
	g.low, g.high = slices.Clone(pads[:n]), slices.Clone(pads[n:])
	auto := c.oneOf("auto_pad", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
	for d := range n {
		if g.stride[d] < 1 || g.dilation[d] < 1 || extra[d] < 0 || max(g.stride[d], g.dilation[d], extra[d]) > 1<<20 {
			c.fail("strides %v, dilations %v, output_padding %v", g.stride, g.dilation, extra)
		}
		full := (g.in[d]-1)*g.stride[d] + extra[d] + (g.kernel[d]-1)*g.dilation[d] + 1
		out := full - g.low[d] - g.high[d]
		same := auto == "SAME_UPPER" || auto == "SAME_LOWER"
		if want != nil || same {
			out = g.in[d] * g.stride[d]
			if want != nil {
				out = want[d]
			}
			total := max(full-out, 0)
			g.low[d], g.high[d] = total/2, total-total/2
			if auto != "SAME_UPPER" {
				g.low[d], g.high[d] = g.high[d], g.low[d]
			}
			if auto == "SAME_UPPER" || auto == "NOTSET" {
				g.low[d], g.high[d] = total/2, total-total/2
			}
		}
		if out < 0 {
			c.fail("a result of length %d", out)
		}
		g.out = append(g.out, out)
	}
	return g
}

// deformConv reads the input between pixels: every place of the kernel has an offset, and maybe a factor, for every
// pixel. Values between pixels are bilinear, in float64, and rounded to float before the product.
func deformConv(c *call) {
	x, w, offset, bias, mask := c.plain(0), c.plain(1), c.plain(2), c.optional(3), c.unlast(c.optional(4))
	c.need(x, Float)
	c.rank(x, 4, 4)
	group, slots := c.int("group", 1), c.int("offset_group", 1)
	n, ch, o := x.Shape[0], x.Shape[1], w.Shape[0]
	if len(w.Shape) != 4 || w.Type != Float || group < 1 || slots < 1 || ch != w.Shape[1]*group || o%group != 0 || ch%slots != 0 {
		c.fail("inputs are %v and %v in %d groups and %d groups of offsets", x, w, group, slots)
	}
	g := c.window(x, w.Shape[2:], false)
	places, pixels, in := volume(g.kernel), volume(g.out), ch/group
	if offset.Type != Float || !slices.Equal(offset.Shape, []int{n, slots * places * 2, g.out[0], g.out[1]}) {
		c.fail("offsets %v of %d groups, %d places and %v pixels", offset, slots, places, g.out)
	}
	if mask != nil && (mask.Type != Float || !slices.Equal(mask.Shape, []int{n, slots * places, g.out[0], g.out[1]})) {
		c.fail("a mask %v of %d groups, %d places and %v pixels", mask, slots, places, g.out)
	}
	c.spend(n, pixels, o, in, places)
	out := c.new(Float, n, o, g.out[0], g.out[1])
	k := places * in
	patches, product := c.new(Float, pixels, k), c.new(Float, pixels, o/group)
	rows := arranged(w)
	for s := range n {
		for i := range group {
			c.each(pixels, 8*k, func(lo, hi int) {
				for p := lo; p < hi; p++ {
					for q := range places {
						for v := range in {
							channel := i*in + v
							slot := channel / (ch / slots)
							at := ((s*slots+slot)*places + q) * 2
							y := float64(p/g.out[1]*g.stride[0]-g.low[0]+q/g.kernel[1]*g.dilation[0]) + float64(offset.F[at*pixels+p])
							xx := float64(p%g.out[1]*g.stride[1]-g.low[1]+q%g.kernel[1]*g.dilation[1]) + float64(offset.F[(at+1)*pixels+p])
							value := bilinear(x.F[(s*ch+channel)*g.in[0]*g.in[1]:], g.in[0], g.in[1], y, xx)
							if mask != nil {
								value *= float64(mask.F[((s*slots+slot)*places+q)*pixels+p])
							}
							patches.F[p*k+q*in+v] = float32(value)
						}
					}
				}
			})
			per := o / group
			c.backend().Gemm(&kernels.Gemm{Layout: kernels.NT, A: mat(patches.F, pixels, k), B: mat(rows[i*per*k:(i+1)*per*k], per, k), C: mat(product.F, pixels, per)})
			for v := range per {
				b := float32(0)
				if bias != nil {
					b = bias.F[i*per+v]
				}
				for p := range pixels {
					out.F[(s*o+i*per+v)*pixels+p] = product.F[p*per+v] + b
				}
			}
		}
	}
	c.drop(patches)
	c.drop(product)
	c.put(out)
}
