package attention

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// turning is the argument of a rope kernel: the heads of one token.
type turning struct {
	x, y, cos, sin   unsafe.Pointer
	xStride, yStride int // bytes from head to head
	heads, pairs     int
	sign             uint32 // of the sines, turned over by it
	//lint:ignore U1000 assembly for arm64 writes it
	flushed int // other than 0: a result was, on path NEON (package neon)
}

// ropes are the rope kernels of a path. Other operands go by the loop of ref.
type ropes struct {
	of   [2][2]func(*turning) // by kind, and F32 or BF16
	step int                  // their pairs are a multiple of it; 0: there are no kernels
}

// Rope turns every token.
func (e *Engine) Rope(a *kernels.Rope, par gemm.Parallel) {
	tokens := a.X.B * a.X.S
	work := max(1, a.X.H*a.X.D)
	each := max(1, 1<<16/work)
	kernel := e.rope.of[a.Kind][min(a.X.DType, kernels.BF16)]
	whole := e.rope.step > 0 && a.Cos.Cols%e.rope.step == 0 && a.X.DType <= kernels.BF16 && a.X.DType == a.Y.DType && a.Cos.DType == kernels.F32 && a.Sin.DType == kernels.F32 &&
		2*a.Cos.Cols == a.X.D && a.Sin.Cols == a.Cos.Cols && a.X.H > 0 && a.X.D > 0
	par((tokens+each-1)/each, func(i int) {
		lo, hi := i*each, min((i+1)*each, tokens)
		if !whole {
			ref.Rope(a, lo, hi)
			return
		}
		n := a.X.DType.Size()
		x, y, cos, sin := a.X.Raw(), a.Y.Raw(), a.Cos.F32(), a.Sin.F32()
		t := turning{xStride: a.X.SH * n, yStride: a.Y.SH * n, heads: a.X.H, pairs: a.Cos.Cols}
		if a.Inverse {
			t.sign = 1 << 31
		}
		for token := lo; token < hi; token++ {
			b, s := token/a.X.S, token%a.X.S
			row := s
			if a.Cos.Rows > a.X.S {
				row = token
			}
			t.x, t.y = unsafe.Pointer(&x[a.X.At(b, s, 0)*n]), unsafe.Pointer(&y[a.Y.At(b, s, 0)*n])
			t.cos, t.sin = unsafe.Pointer(&cos[row*a.Cos.Stride]), unsafe.Pointer(&sin[row*a.Sin.Stride])
			kernel(&t)
		}
	})
}
