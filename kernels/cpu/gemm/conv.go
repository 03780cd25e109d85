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
	u, ok := e.convs[a.Math]
	switch {
	case !ok:
		split(a.N*oh, e.threads, par, func(lo, hi int) { ref.Conv(a, lo, hi) })
	case s.KH*s.KW == 1 && s.Stride == 1 && s.Top+s.Left+s.Bottom+s.Right == 0:
		g := pointwise(a)
		e.product(u, g, g.A.Rows, g.C.Cols, g.A.Cols, par)
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
	u, ok := e.convs[m]
	if !ok {
		return rowsBytes(s.Out, s.KH*s.KW*s.In, m)
	}
	return panels(s.Out) * u.panelBytes(s.KH*roundUp(s.KW*s.In, u.step()))
}

// PackConv fills p (Math, N, K, Conv and a Buf of ConvBytes are set) from a weight
// [Out, KH, KW, In]: every dy begins a step of k.
func (e *Engine) PackConv(p *kernels.Packed, w kernels.Span, par Parallel) {
	u, ok := e.convs[p.Math]
	if !ok {
		e.packRows(p, kernels.NewMat(w, p.N, p.K), par)
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
	c.parts = parts{a: partA, c: partC, bias: partBias}
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
	wide := (a.W + s.Left + s.Right) * s.In * c.bytes // without bytes that packing may write past it
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
		bias := c.product.bias(s, j)
		direct := !c.later && c.u.direct(c.C.DType) && (j+1)*panel <= c.n
		c.sumRows(s, bias, sample, y0, rows, m0, j, direct)
		if !direct {
			c.finish(s, nil, bias, m0, pixels, j)
		}
	}
	c.e.scratch.put(s)
}

// sumRows adds up one panel of a task: over dy, chunks of its k, and output rows, so
// that a chunk of the panel stays in L1 while the rows go by.
func (c *convolution) sumRows(s *arena, bias unsafe.Pointer, sample, y0, rows, m0, j int, direct bool) {
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
					s.block.outStride, s.block.bias = uintptr(c.C.Stride*c.C.DType.Size()), uintptr(bias)
					s.block.outBF16 = int(c.C.DType)
				}
				c.u.run(&s.block, pixels, k, length)
			}
		}
		at += roundUp(c.row, c.u.step())
	}
}

// gather lays the values under each output pixel beside each other and packs them.
func (c *convolution) gather(s *arena, sample, y0, rows int) {
	a, size := c.conv, c.conv.X.DType.Size()
	raw := unsafe.Slice((*byte)(s.get(partSample)), rows*c.ow*c.k*size)
	for r := range rows {
		gatherWindows(raw[r*c.ow*c.k*size:], a, sample+c.n0, y0+r, 0, a.Shape.KH, c.ow)
	}
	from := operand{p: s.get(partSample), dtype: a.X.DType, size: size, stride: c.k * size}
	at := 0
	for dy := range a.Shape.KH {
		c.u.packA(s.get(partA), s.get(partTmp), c.rowBytes, from, 0, rows*c.ow, dy*c.row, c.row, at)
		at += roundUp(c.row, c.u.step())
	}
}

// gatherWindows is the input under each pixel of an output row, window rows dy0 to dy1-1, in X's type, zeros outside
// the picture.
func gatherWindows(dst []byte, a *kernels.Conv, sample, y, dy0, dy1, ow int) {
	s, size := a.Shape, a.X.DType.Size()
	pixel := s.In * size
	x := a.X.Raw()
	at := 0
	for i := range ow {
		left := i*s.Stride - s.Left
		lo, hi := max(0, -left), max(0, min(s.KW, a.W-left)) // dx inside the picture
		for dy := dy0; dy < dy1; dy++ {
			part := dst[at : at+s.KW*pixel]
			at += len(part)
			in := y*s.Stride - s.Top + dy
			if in < 0 || in >= a.H || lo >= hi {
				clear(part)
				continue
			}
			clear(part[:lo*pixel])
			clear(part[hi*pixel:])
			from := ((sample*a.H+in)*a.W + left + lo) * pixel
			copy(part[lo*pixel:hi*pixel], x[from:from+(hi-lo)*pixel])
		}
	}
}

// The gradients of a convolution are a convolution and products:
//
//	dX       a convolution of dY, spread by the stride, with the weight turned about
//	         (ref.ConvBackwardInput); so its speed is that of the forward
//	dWeight  for each sample and dy, dYᵀ · (the KW·In values under each pixel), added to
//	         the columns of that dy: gathered values for one dy are memory enough
//
// dBias is a sum of rows, which the backend has.

// ConvBackward computes DX and adds to DWeight, where they are asked for.
func (e *Engine) ConvBackward(a *kernels.ConvBackward, par Parallel) {
	s := a.Shape
	oh, ow := s.OutSize(a.H, a.W)
	_, fast := e.convs[a.Math]
	padded := s.Top < s.KH && s.Left < s.KW && s.Bottom < s.KH && s.Right < s.KW
	if a.N > 0 && !a.DX.Empty() {
		if fast && padded && oh*ow > 0 {
			e.convInput(a, oh, ow, par)
		} else {
			split(a.N*a.H, e.threads, par, func(lo, hi int) { ref.ConvBackwardInput(a, lo, hi) })
		}
	}
	switch {
	case a.DWeight.Empty():
	case fast:
		e.convWeight(a, oh, ow, par)
	default:
		only := *a
		only.DBias = kernels.Span{}
		split(s.Out, e.threads, par, func(lo, hi int) { ref.ConvBackwardWeight(&only, lo, hi) })
	}
}

// BackwardScratch is ConvBackward's memory for its own time: of DX the turned weight, its packed form, the spread
// gradient and pictures; of DWeight the windows under one row of the kernel, and their packed form.
func (e *Engine) BackwardScratch(a *kernels.ConvBackward) int {
	s := a.Shape
	oh, ow := s.OutSize(a.H, a.W)
	input, weight := 0, 0
	if !a.DX.Empty() {
		packed := e.ConvBytes(kernels.ConvShape{In: s.Out, Out: s.In, KH: s.KH, KW: s.KW, Stride: 1}, a.Math)
		input = s.In*s.KH*s.KW*s.Out*weightType(a).Size() + packed + min(4*a.N*(a.H+2*s.KH)*(a.W+2*s.KW)*s.Out, MostScratch)
		if s.Stride > 1 {
			input += a.N * ((oh-1)*s.Stride + 1) * ((ow-1)*s.Stride + 1) * s.Out * a.DY.DType.Size()
		}
	}
	if row := s.KW * s.In; !a.DWeight.Empty() {
		weight = oh*ow*row*a.X.DType.Size() + min(e.PackedBytes(row, oh*ow, a.Math), MostScratch)
	}
	return max(input, weight) + min(max(input, weight)/4, 1<<20) // arenas are longer than asked
}

// split calls f for a few pieces of n a thread.
func split(n, threads int, par Parallel, f func(lo, hi int)) {
	tasks := min(n, 4*threads)
	par(tasks, func(i int) { f(i*n/tasks, (i+1)*n/tasks) })
}

// convInput is DX.
func (e *Engine) convInput(a *kernels.ConvBackward, oh, ow int, par Parallel) {
	s := a.Shape
	high, wide := (oh-1)*s.Stride+1, (ow-1)*s.Stride+1
	c := kernels.Conv{Math: a.Math, N: a.N, H: high, W: wide, X: a.DY, Y: a.DX, Shape: kernels.ConvShape{
		In: s.Out, Out: s.In, KH: s.KH, KW: s.KW, Stride: 1, Top: s.KH - 1 - s.Top, Left: s.KW - 1 - s.Left,
		Bottom: a.H - high + s.Top, Right: a.W - wide + s.Left}}
	weight, d := s.In*s.KH*s.KW*s.Out, weightType(a)
	spread := 0
	if s.Stride > 1 {
		spread = a.N * high * wide * s.Out * a.DY.DType.Size()
	}
	memory := e.stages.take(weight*d.Size(), spread)
	turned := memory.span(0, weight, d)
	e.turnWeight(a, turned, par)
	c.Weight = turned
	if s.Stride > 1 {
		c.X = memory.span(1, spread/a.DY.DType.Size(), a.DY.DType)
		spreadPixels(c.X.Raw(), a.DY.Raw(), a.N, oh, ow, s.Stride, s.Out*a.DY.DType.Size(), par)
	}
	e.Conv(&c, par)
	e.stages.put(memory)
}

// weightType is the type of the turned weight.
func weightType(a *kernels.ConvBackward) kernels.DType {
	switch {
	case a.Packed == nil:
		return a.Weight.DType
	case a.Math == kernels.MathBF16:
		return kernels.BF16
	}
	return kernels.F32
}

// turnWeight is the weight as [In, KH, KW, Out], its window turned by half a turn.
func (e *Engine) turnWeight(a *kernels.ConvBackward, dst kernels.Span, par Parallel) {
	s := a.Shape
	taps := s.KH * s.KW
	if a.Packed == nil {
		blocks := (s.In + panel - 1) / panel
		par(taps*blocks, func(i int) {
			p, i0 := i/blocks, i%blocks*panel
			i1 := min(i0+panel, s.In)
			if dst.DType == kernels.BF16 {
				turnTap(dst.BF16(), a.Weight.BF16(), s, p, i0, i1)
			} else {
				turnTap(dst.F32(), a.Weight.F32(), s, p, i0, i1)
			}
		})
		return
	}
	u := e.convs[a.Math]
	if a.Packed.Form != u.form() {
		panic("gemm: a weight packed for another path")
	}
	weights, row := convWeights(e, u, kernels.Span{}, s), s.KW*s.In
	weights.shared = pointer(a.Packed.Buf.Host)
	n := dst.DType.Size()
	par(panels(s.Out), func(j int) {
		var line [panel]float32 // of either type
		columns := min(panel, s.Out-j*panel) * n
		raw := dst.Raw()
		for k := range taps * s.In {
			p, i := k/s.In, k%s.In
			u.unpack(unsafe.Pointer(&line), weights.panel(j), k/row*roundUp(row, u.step())+k%row)
			copy(raw[((i*taps+taps-1-p)*s.Out+j*panel)*n:][:columns], unsafe.Slice((*byte)(unsafe.Pointer(&line)), columns))
		}
	})
}

// turnTap moves input channels i0 to i1-1 of tap p.
func turnTap[T uint16 | float32](dst, src []T, s kernels.ConvShape, p, i0, i1 int) {
	taps := s.KH * s.KW
	for o0 := 0; o0 < s.Out; o0 += panel {
		for i := i0; i < i1; i++ {
			to := dst[(i*taps+taps-1-p)*s.Out:][:s.Out]
			for o := o0; o < min(o0+panel, s.Out); o++ {
				to[o] = src[(o*taps+p)*s.In+i]
			}
		}
	}
}

// spreadPixels puts zeros between the pixels of n pictures of high x wide.
func spreadPixels(dst, src []byte, n, high, wide, stride, pixel int, par Parallel) {
	row := ((wide-1)*stride + 1) * pixel
	tall := (high-1)*stride + 1
	par(n*high, func(i int) {
		sample, y := i/high, i%high
		at := (sample*tall + y*stride) * row
		rows := dst[at:min(at+stride*row, (sample+1)*tall*row)]
		clear(rows)
		for x := range wide {
			copy(rows[x*stride*pixel:][:pixel], src[(i*wide+x)*pixel:])
		}
	})
}

// convWeight adds to DWeight.
func (e *Engine) convWeight(a *kernels.ConvBackward, oh, ow int, par Parallel) {
	s, pixels := a.Shape, oh*ow
	row := s.KW * s.In
	if pixels == 0 || row == 0 {
		return
	}
	d := a.X.DType
	memory := e.stages.take(pixels * row * d.Size())
	under := memory.span(0, pixels*row, d)
	dw := kernels.NewMat(a.DWeight, s.Out, s.KH*row)
	for n := range a.N {
		for dy := range s.KH {
			split(oh, e.threads, par, func(lo, hi int) {
				for y := lo; y < hi; y++ {
					gatherWindows(under.Raw()[y*ow*row*d.Size():], &a.Conv, n, y, dy, dy+1, ow)
				}
			})
			e.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: a.Math, Accumulate: true, Segments: []int{pixels},
				A: kernels.NewMat(a.DY.Slice(n*pixels*s.Out, (n+1)*pixels*s.Out), pixels, s.Out),
				B: kernels.NewMat(under, pixels, row), C: dw.ColRange(dy*row, (dy+1)*row)}, par)
		}
	}
	e.stages.put(memory)
}

// span views a part of an arena.
func (s *arena) span(i, n int, d kernels.DType) kernels.Span {
	return kernels.Span{Buf: &kernels.Buffer{Host: unsafe.Slice((*byte)(s.get(i)), n*d.Size())}, Len: n, DType: d}
}
