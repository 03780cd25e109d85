package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

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
	_, fast := e.units[a.Math]
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

// weightType is what the turned weight is kept in.
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
	u := e.units[a.Math]
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
