package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// A convolution is a product whose rows overlap. With pictures padded by zeros and
// channels last, the KW·In values under an output pixel, for one dy, are contiguous,
// and the next pixel's begin Stride·In further on: so they are a block of A whose rows
// are Stride·In apart, and nothing is gathered. C adds up over dy.
//
// That needs packed rows to be pieces of packed pictures: channels are a multiple of
// the unit's grain, within which it reorders k. Other shapes gather their rows
// (im2col) task by task.

// convolution is one call.
type convolution struct {
	product
	conv    *kernels.Conv
	oh, ow  int
	row     int // KW·In: the k of one dy
	rows    int // output rows of a task
	overlap bool
	bytes   int // of a number of packed A
	pitch   int // bytes from row to row of a packed picture
	picture int // bytes of a packed picture
	n0      int // the first sample in pictures
	packed  unsafe.Pointer
}

// Conv computes a convolution.
func (e *Engine) Conv(a *kernels.Conv, par Parallel) {
	s := a.Shape
	oh, ow := s.OutSize(a.H, a.W)
	if a.N*oh*ow == 0 || s.Out == 0 {
		return
	}
	u, ok := e.units[a.Math]
	switch {
	case !ok:
		split(a.N*oh, e.threads, par, func(lo, hi int) { ref.Conv(a, lo, hi) })
	case s.KH*s.KW == 1 && s.Stride == 1 && s.Top+s.Left+s.Bottom+s.Right == 0:
		e.Gemm(pointwise(a), par)
	default:
		newConvolution(e, u, a, oh, ow).run(par)
	}
}

// pointwise is a 1x1 convolution as the product that it is.
func pointwise(a *kernels.Conv) *kernels.Gemm {
	s, pixels := a.Shape, a.N*a.H*a.W
	g := &kernels.Gemm{Layout: kernels.NT, Math: a.Math, A: kernels.NewMat(a.X, pixels, s.In), C: kernels.NewMat(a.Y, pixels, s.Out),
		W: a.Packed, Bias: a.Bias, Act: a.Act, Residual: matIf(a.Residual, pixels, s.Out)}
	if a.Packed == nil {
		g.B = kernels.NewMat(a.Weight, s.Out, s.In)
	}
	return g
}

func matIf(s kernels.Span, rows, cols int) kernels.Mat {
	if s.Empty() {
		return kernels.Mat{}
	}
	return kernels.NewMat(s, rows, cols)
}

// ConvBytes is the memory that a packed weight takes.
func (e *Engine) ConvBytes(s kernels.ConvShape, m kernels.Math) int {
	u, ok := e.units[m]
	if !ok {
		return e.PackedBytes(s.Out, s.KH*s.KW*s.In, m)
	}
	return panels(s.Out) * u.panelBytes(s.KH*roundUp(s.KW*s.In, u.step()))
}

// PackConv fills p (Math, N, K, Conv and a Buf of ConvBytes are set) from a weight
// [Out, KH, KW, In]: every dy begins a step of k.
func (e *Engine) PackConv(p *kernels.Packed, w kernels.Span, par Parallel) {
	u, ok := e.units[p.Math]
	if !ok {
		e.Pack(p, kernels.NewMat(w, p.N, p.K), par)
		return
	}
	p.Form = u.form()
	c := convWeights(e, u, w, p.Conv)
	c.shared = pointer(p.Buf.Host)
	c.packAll(par)
}

// convWeights is the half of a convolution that packs its weight.
func convWeights(e *Engine, u unit, w kernels.Span, s kernels.ConvShape) *convolution {
	c := &convolution{row: s.KW * s.In}
	c.e, c.u, c.n, c.k, c.alpha = e, u, s.Out, s.KH*c.row, 1
	for range s.KH {
		c.samples = append(c.samples, c.row)
	}
	c.kp = s.KH * roundUp(c.row, u.step())
	c.size, c.to = u.panelBytes(c.kp), panels(c.n)
	if !w.Empty() {
		c.b = operandOf(kernels.NewMat(w, s.Out, c.k), false)
	}
	return c
}

// packAll packs every panel of the weight into shared memory.
func (c *convolution) packAll(par Parallel) {
	each := max(1, 1<<18/c.size)
	par((panels(c.n)+each-1)/each, func(i int) {
		s := c.e.scratch.take(tmpBytes)
		for j := i * each; j < min((i+1)*each, panels(c.n)); j++ {
			c.packPanel(c.panel(j), s.get(0), j)
		}
		c.e.scratch.put(s)
	})
}

func newConvolution(e *Engine, u unit, a *kernels.Conv, oh, ow int) *convolution {
	s := a.Shape
	c := convWeights(e, u, a.Weight, s)
	c.conv, c.oh, c.ow, c.m = a, oh, ow, a.N*oh*ow
	c.Gemm = &kernels.Gemm{Math: a.Math, C: kernels.NewMat(a.Y, c.m, c.n), Bias: a.Bias, Act: a.Act, Residual: matIf(a.Residual, c.m, c.n)}
	c.later = a.Act != kernels.Identity || !a.Residual.Empty()
	if a.Packed != nil {
		if a.Packed.Form != u.form() {
			panic("gemm: a weight packed for another path")
		}
		c.shared = pointer(a.Packed.Buf.Host)
	}
	c.overlap = s.In%u.grain() == 0
	c.bytes = u.rowBytes(32) / 32
	c.pitch = (roundUp((a.W+s.Left+s.Right)*s.In, 32) + 32) * c.bytes // packing writes whole steps
	c.picture = (a.H + s.Top + s.Bottom) * c.pitch
	c.rowBytes = u.rowBytes(c.kp)
	c.rows = max(1, min(oh, 256/ow))
	c.width = panels(c.n)
	for c.overlap && e.threads > 1 && a.N*((oh+c.rows-1)/c.rows)*((panels(c.n)+c.width-1)/c.width) < 6*e.threads && c.width > 1 {
		c.width = (c.width + 1) / 2
	}
	return c
}

// run packs as many pictures as the budget holds at a time.
func (c *convolution) run(par Parallel) {
	var weights *arena
	if c.shared == nil {
		weights = c.e.stages.take(panels(c.n) * c.size)
		c.shared = weights.get(0)
		c.packAll(par)
	}
	if !c.overlap {
		c.compute(c.conv.N, par)
	} else {
		some := max(1, sharedBudget/c.picture)
		pictures := c.e.stages.take(min(some, c.conv.N) * c.picture)
		c.packed = pictures.get(0)
		for ; c.n0 < c.conv.N; c.n0 += some {
			n := min(some, c.conv.N-c.n0)
			c.packPictures(n, par)
			c.compute(n, par)
		}
		c.e.stages.put(pictures)
	}
	if weights != nil {
		c.e.stages.put(weights)
	}
}

// packPictures packs n pictures from n0 on, with zeros around them.
func (c *convolution) packPictures(n int, par Parallel) {
	a, s := c.conv, c.conv.Shape
	wide := (a.W + s.Left + s.Right) * s.In * c.bytes // without what packing may write past it
	high := a.H + s.Top + s.Bottom
	x := operandOf(kernels.NewMat(a.X, a.N*a.H, a.W*s.In), false)
	each := max(1, 1<<17/c.pitch)
	pieces := (high + each - 1) / each
	par(n*pieces, func(i int) {
		tmp := c.e.scratch.take(tmpBytes)
		for y := i % pieces * each; y < min((i%pieces+1)*each, high); y++ {
			row := unsafe.Slice((*byte)(unsafe.Add(c.packed, i/pieces*c.picture+y*c.pitch)), wide)
			if y < s.Top || y >= s.Top+a.H {
				clear(row)
				continue
			}
			left, right := s.Left*s.In*c.bytes, s.Right*s.In*c.bytes
			clear(row[:left])
			clear(row[wide-right:])
			c.u.packA(unsafe.Add(pointer(row), left), tmp.get(0), wide, x, (c.n0+i/pieces)*a.H+y-s.Top, 1, 0, a.W*s.In, 0)
		}
		c.e.scratch.put(tmp)
	})
}

// compute runs the tasks of n samples from n0 on: blocks of output rows x ranges of
// panels.
func (c *convolution) compute(n int, par Parallel) {
	blocks, ranges := (c.oh+c.rows-1)/c.rows, (panels(c.n)+c.width-1)/c.width
	par(n*blocks*ranges, func(i int) {
		sample, y, j := i/ranges/blocks, i/ranges%blocks*c.rows, i%ranges*c.width
		c.task(sample, y, min(c.rows, c.oh-y), j, min(j+c.width, panels(c.n)))
	})
}

// task computes output rows y0 and on of one sample (from n0) and panels j0 to j1-1.
func (c *convolution) task(sample, y0, rows, j0, j1 int) {
	pixels := rows * c.ow
	blockBytes, gathered := 0, 0
	if !c.overlap {
		blockBytes, gathered = roundUp(pixels, 16)*c.rowBytes, pixels*c.k*c.conv.X.DType.Size()
	}
	s := c.e.scratch.take(tmpBytes, blockBytes, roundUp(pixels, 16)*panel*4, gathered, 0, panel*4)
	if !c.overlap {
		c.gather(s, sample, y0, rows)
	}
	m0 := ((c.n0+sample)*c.oh + y0) * c.ow
	for j := j0; j < j1; j++ {
		c.setBias(s, j)
		direct := !c.later && c.u.direct(c.C.DType) && (j+1)*panel <= c.n
		c.sumRows(s, sample, y0, rows, m0, j, direct)
		if !direct {
			c.finish(s, m0, pixels, j)
		}
	}
	c.e.scratch.put(s)
}

// sumRows adds up one panel of a task: over dy, chunks of its k, and output rows, so
// that a chunk of the panel stays in L1 while the rows go by.
func (c *convolution) sumRows(s *arena, sample, y0, rows, m0, j int, direct bool) {
	shape, chunk := c.conv.Shape, c.u.chunk()
	at := 0
	for dy := range shape.KH {
		for done := 0; done < c.row; done += chunk {
			length := min(chunk, c.row-done)
			from := uintptr(unsafe.Add(c.panel(j), c.u.panelBytes(at+done)))
			last := direct && dy == shape.KH-1 && done+length == c.row
			runs, pixels := rows, c.ow
			if !c.overlap {
				runs, pixels = 1, rows*c.ow
			}
			for y := range runs {
				s.block = block{c: uintptr(s.get(partC)) + uintptr(y*c.ow*panel*4), b: from, ahead: from, narrow: c.narrow(j)}
				if at+done > 0 {
					s.block.start = 1
				}
				k := 0
				if c.overlap {
					s.block.a = uintptr(c.packed) + uintptr(sample*c.picture+((y0+y)*shape.Stride+dy)*c.pitch+done*c.bytes)
					s.block.lda = uintptr(shape.Stride * shape.In * c.bytes)
				} else {
					s.block.a, s.block.lda, k = uintptr(s.get(partA)), uintptr(c.rowBytes), at+done
				}
				if last {
					s.block.out = uintptr(operandOf(c.C, false).at(m0+y*c.ow, j*panel))
					s.block.outStride, s.block.bias = uintptr(c.C.Stride*c.C.DType.Size()), uintptr(s.get(partBias))
					s.block.outBF16 = int(c.C.DType)
				}
				c.u.run(&s.block, pixels, k, length)
			}
		}
		at += roundUp(c.row, c.u.step())
	}
}
