package cuda

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Attention on tensor cores reads bf16 whose rows start at multiples of 16 bytes. Operands that are
// something else, or lie otherwise, are copied first.

// mostHead is the largest head dimension that the tensor cores' kernels have rows for.
const mostHead = 128

// onTensorCores reports whether the tensor cores' kernels serve an attention.
func (b *Backend) onTensorCores(a *kernels.Attention) bool {
	return !b.exact && a.Math == kernels.MathBF16 && a.Q.D <= mostHead && a.V.D <= mostHead
}

// tensorAttention launches the kernel for the head dimension: blocks of 128 threads, with shared
// memory for some rows.
func (b *Backend) tensorAttention(op, pass string, a *kernels.Attention, blocks, rows int, p *attentionArgs) {
	d := 64
	if a.Q.D > d || a.V.D > d {
		d = mostHead
	}
	b.launch(op, fmt.Sprintf("attention_tensor%s_%d", pass, d), [2]int{blocks, 1}, 128, rows*d*2, p)
}

// source is an operand, and what the kernel reads of it.
type source struct {
	to *heads
	x  kernels.Heads
}

// tensorHeads makes operands readable, and returns the scratch of those that were copied.
func (b *Backend) tensorHeads(op string, sources ...source) (scratch []uintptr) {
	for _, s := range sources {
		to, x := s.to, s.x
		if x.Empty() || x.DType == kernels.BF16 && x.D%8 == 0 && x.SS%8 == 0 && x.SH%8 == 0 && x.SB%8 == 0 && to.p%16 == 0 && (!b.hopper.attention.use || to.mappable()) {
			continue
		}
		wide := (x.D + 7) / 8 * 8
		n := x.B * x.S * x.H * wide
		piece := b.scratch(op, 2*n)
		scratch = append(scratch, piece...)
		span := kernels.Span{Buf: &kernels.Buffer{Addr: piece[0], Bytes: 2 * n}, Len: n, DType: kernels.BF16}
		if wide != x.D {
			b.Fill(span, 0)
		}
		y := kernels.Heads{Span: span, B: x.B, S: x.S, H: x.H, D: x.D, SB: x.S * x.H * wide, SS: x.H * wide, SH: wide}
		b.Copy(&kernels.Copy{Src: x.Span, Dst: span, Shape: [5]int{1, x.B, x.S, x.H, x.D},
			SrcStride: [5]int{0, x.SB, x.SS, x.SH, 1}, DstStride: [5]int{0, y.SB, y.SS, y.SH, 1}})
		*to = headsOf(y)
	}
	return scratch
}
