package cpu

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/noise"
	"github.com/darkroom-rl/darkroom/kernels/cpu/unpack"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Pack puts a frozen weight into the layout of the path's products.
func (b *Backend) Pack(w kernels.Mat, m kernels.Math) *kernels.Packed { return b.PackIn(nil, w, m) }

// PackIn is Pack in memory of its size.
func (b *Backend) PackIn(memory *kernels.Buffer, w kernels.Mat, m kernels.Math) *kernels.Packed {
	p := b.packed(memory, w.Rows, w.Cols, m)
	b.gemm.Pack(p, w, b.pool.run)
	return p
}

// PackCodes unpacks a panel's rows at a time.
func (b *Backend) PackCodes(memory *kernels.Buffer, a *kernels.Unpack, m kernels.Math) *kernels.Packed {
	a.Check()
	p := b.packed(memory, a.Dst.Rows, a.Dst.Cols, m)
	b.gemm.PackMade(p, a.Dst.DType, func(dst kernels.Mat, lo, hi int) { unpack.Into(b.path, dst, a, lo, hi) }, b.pool.run)
	return p
}

// packed is an [n,k] weight that is not yet written.
func (b *Backend) packed(memory *kernels.Buffer, n, k int, m kernels.Math) *kernels.Packed {
	size := b.gemm.PackedBytes(n, k, m)
	switch {
	case memory == nil:
		memory = b.Alloc(size)
	case memory.Bytes != size:
		panic(fmt.Sprintf("cpu: %d bytes for a weight of %d x %d, which takes %d", memory.Bytes, n, k, size))
	}
	return &kernels.Packed{Math: m, N: n, K: k, Buf: memory}
}

// Unpack writes every row of a compressed matrix.
func (b *Backend) Unpack(a *kernels.Unpack) {
	a.Check()
	b.byRows(a.Dst.Rows, a.Dst.Cols, func(lo, hi int) { unpack.Rows(b.path, a, lo, hi) })
}

// Gemm computes a product.
func (b *Backend) Gemm(a *kernels.Gemm) { b.gemm.Gemm(a, b.pool.run) }

// PackConv puts a frozen weight [Out, KH, KW, In] into the layout of the path's
// convolutions.
func (b *Backend) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	p := &kernels.Packed{Math: m, N: s.Out, K: s.KH * s.KW * s.In, Conv: s}
	p.Buf = b.Alloc(b.gemm.ConvBytes(s, m))
	b.gemm.PackConv(p, w, b.pool.run)
	return p
}

// Conv computes a convolution.
func (b *Backend) Conv(a *kernels.Conv) { b.gemm.Conv(a, b.pool.run) }

// ConvBackward computes DX and adds to DWeight and DBias, where they are asked for.
func (b *Backend) ConvBackward(a *kernels.ConvBackward) {
	b.gemm.ConvBackward(a, b.pool.run)
	if a.DBias.Empty() || a.N == 0 {
		return
	}
	oh, ow := a.Shape.OutSize(a.H, a.W)
	samples := make([]int, a.N)
	for i := range samples {
		samples[i] = oh * ow
	}
	b.SumRows(&kernels.SumRows{X: kernels.NewMat(a.DY, a.N*oh*ow, a.Shape.Out), Segments: samples, Out: a.DBias, Accumulate: true})
}

// Depthwise computes every line.
func (b *Backend) Depthwise(a *kernels.Depthwise) {
	oh, ow := a.OutSize()
	b.byRows(a.N*oh, ow*a.C*max(1, a.KH*a.KW/4), func(lo, hi int) { b.rows.Depthwise(a, lo, hi) })
}

// Upsample repeats pixels.
func (b *Backend) Upsample(a *kernels.Upsample) {
	b.byRows(a.N*a.H*a.Factor, a.W*a.Factor*a.C, func(lo, hi int) { ref.Upsample(a, lo, hi) })
}

// UpsampleBackward adds up the copies of every pixel.
func (b *Backend) UpsampleBackward(a *kernels.UpsampleBackward) {
	b.byRows(a.N*a.H, a.W*a.C*a.Factor*a.Factor, func(lo, hi int) { ref.UpsampleBackward(a, lo, hi) })
}

// Attention computes every query.
func (b *Backend) Attention(a *kernels.Attention) { b.attention.Attention(a, b.pool.run) }

// AttentionBackward computes every gradient.
func (b *Backend) AttentionBackward(a *kernels.AttentionBackward) {
	b.attention.AttentionBackward(a, b.pool.run)
	if !a.DBias.Empty() { // rare: text encoders that are trained
		b.pool.run(a.Q.H, func(h int) { ref.AttentionBackwardBias(a, h, h+1) })
	}
}

// Rope turns every token.
func (b *Backend) Rope(a *kernels.Rope) { b.attention.Rope(a, b.pool.run) }

// Unary computes every element.
func (b *Backend) Unary(a *kernels.Unary) {
	b.pool.rows(a.X.Len, pieceElements, func(lo, hi int) { b.rows.Unary(a, lo, hi) })
}

// UnaryBackward computes every element.
func (b *Backend) UnaryBackward(a *kernels.UnaryBackward) {
	b.pool.rows(a.X.Len, pieceElements, func(lo, hi int) { b.rows.UnaryBackward(a, lo, hi) })
}

// Binary computes every element.
func (b *Backend) Binary(a *kernels.Binary) {
	b.pool.rows(a.X.Len, pieceElements, func(lo, hi int) { b.rows.Binary(a, lo, hi) })
}

// Axpby computes every element.
func (b *Backend) Axpby(a *kernels.Axpby) {
	b.pool.rows(a.X.Len, pieceElements, func(lo, hi int) { b.rows.Axpby(a, lo, hi) })
}

// Modulate computes every row.
func (b *Backend) Modulate(a *kernels.Modulate) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Modulate(a, lo, hi) })
}

// Gated computes every row.
func (b *Backend) Gated(a *kernels.Gated) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Gated(a, lo, hi) })
}

// GLU computes every row.
func (b *Backend) GLU(a *kernels.GLU) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.GLU(a, lo, hi) })
}

// GLUBackward computes every row.
func (b *Backend) GLUBackward(a *kernels.GLUBackward) {
	b.byRows(a.DY.Rows, a.DY.Cols, func(lo, hi int) { b.rows.GLUBackward(a, lo, hi) })
}

// Rows are split so that a piece is some 32,000 elements: tens of microseconds.
const pieceElements = 1 << 15

// byRows calls f for pieces of the rows of a matrix of cols columns.
func (b *Backend) byRows(rows, cols int, f func(lo, hi int)) {
	b.pool.rows(rows, max(1, pieceElements/max(cols, 1)), f)
}

// byColumns calls f for ranges of columns, which are a multiple of 64 wide, of a sum
// down rows.
func (b *Backend) byColumns(rows, cols int, f func(lo, hi int)) {
	blocks := (cols + 63) / 64
	b.pool.rows(blocks, max(1, pieceElements/(64*max(rows, 1))), func(lo, hi int) { f(lo*64, min(hi*64, cols)) })
}

// Norm normalises every row.
func (b *Backend) Norm(a *kernels.Norm) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Norm(a, lo, hi) })
}

// NormBackward computes every gradient.
func (b *Backend) NormBackward(a *kernels.NormBackward) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.NormBackward(a, lo, hi) })
	b.byColumns(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.NormBackwardParams(a, lo, hi) })
}

// GroupNorm normalises every sample.
func (b *Backend) GroupNorm(a *kernels.GroupNorm) { b.rows.GroupNorm(a, b.pool.run) }

// GroupNormBackward computes every gradient.
func (b *Backend) GroupNormBackward(a *kernels.GroupNormBackward) {
	b.rows.GroupNormBackward(a, b.pool.run)
}

// Softmax computes every row.
func (b *Backend) Softmax(a *kernels.Softmax) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Softmax(a, lo, hi) })
}

// SoftmaxBackward computes every row.
func (b *Backend) SoftmaxBackward(a *kernels.SoftmaxBackward) {
	b.byRows(a.Y.Rows, a.Y.Cols, func(lo, hi int) { b.rows.SoftmaxBackward(a, lo, hi) })
}

// LogSoftmaxGather computes every row.
func (b *Backend) LogSoftmaxGather(a *kernels.LogSoftmaxGather) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.LogSoftmaxGather(a, lo, hi) })
}

// LogSoftmaxGatherBackward computes every row.
func (b *Backend) LogSoftmaxGatherBackward(a *kernels.LogSoftmaxGatherBackward) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.LogSoftmaxGatherBackward(a, lo, hi) })
}

// Draw draws every row's token.
func (b *Backend) Draw(a *kernels.Draw) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Draw(a, lo, hi) })
}

// Embedding computes every row.
func (b *Backend) Embedding(a *kernels.Embedding) {
	b.byRows(a.Y.Rows, a.Y.Cols, func(lo, hi int) { b.rows.Embedding(a, lo, hi) })
}

// EmbeddingBackward adds every row, a range of columns at a time.
func (b *Backend) EmbeddingBackward(a *kernels.EmbeddingBackward) {
	b.byColumns(a.DY.Rows, a.DY.Cols, func(lo, hi int) { b.rows.EmbeddingBackward(a, lo, hi) })
}

// SumRows computes every column.
func (b *Backend) SumRows(a *kernels.SumRows) {
	b.byColumns(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.SumRows(a, lo, hi) })
}

// Reduce computes every row.
func (b *Backend) Reduce(a *kernels.Reduce) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Reduce(a, lo, hi) })
}

// ModulateBackward computes every gradient, a range of columns at a time.
func (b *Backend) ModulateBackward(a *kernels.ModulateBackward) {
	b.byColumns(a.DY.Rows, a.DY.Cols, func(lo, hi int) {
		c := *a
		for _, m := range []*kernels.Mat{&c.X, &c.Scale, &c.DY, &c.DX, &c.DScale, &c.DShift} {
			cut(m, lo, hi)
		}
		b.rows.ModulateBackward(&c, 0, ref.Samples(a.DY.Rows, a.RowsPerSample))
	})
}

// GatedBackward computes every gradient, a range of columns at a time.
func (b *Backend) GatedBackward(a *kernels.GatedBackward) {
	b.byColumns(a.DY.Rows, a.DY.Cols, func(lo, hi int) {
		c := *a
		for _, m := range []*kernels.Mat{&c.X, &c.Gate, &c.DY, &c.DX, &c.DGate} {
			cut(m, lo, hi)
		}
		b.rows.GatedBackward(&c, 0, ref.Samples(a.DY.Rows, a.RowsPerSample))
	})
}

// cut narrows a matrix, if it is there, to a range of columns.
func cut(m *kernels.Mat, lo, hi int) {
	if !m.Empty() {
		*m = m.ColRange(lo, hi)
	}
}

// AdamW updates every element.
func (b *Backend) AdamW(a *kernels.AdamW) {
	b.pool.rows(a.P.Len, pieceElements, func(lo, hi int) { b.rows.AdamW(a, lo, hi) })
}

// Row computes every sample.
func (b *Backend) Row(a *kernels.Row) {
	b.byRows(a.X.Rows, a.X.Cols, func(lo, hi int) { b.rows.Row(a, lo, hi) })
}

// Normal draws normals.
func (b *Backend) Normal(a *kernels.Normal) {
	const piece = 1 << 16 // some 60 microseconds; a multiple of a block
	key := rng.Key{Philox: a.Key, Stream: a.Stream}
	b.pool.run((a.Y.Len+piece-1)/piece, func(i int) {
		lo := i * piece
		hi := min(lo+piece, a.Y.Len)
		if a.Y.DType == kernels.F32 {
			noise.Normal(b.path, key, a.Y.F32()[lo:hi], a.Start+uint64(lo))
			return
		}
		z := make([]float32, hi-lo)
		noise.Normal(b.path, key, z, a.Start+uint64(lo))
		ref.Store(a.Y, lo, z)
	})
}
