//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// rig is a backend with helpers for operands.
type rig struct {
	*cuda.Backend
	t *testing.T
	r *rand.Rand
}

func newRig(t *testing.T) *rig {
	double.Library(t)
	return openRig(t)
}

// openRig opens the driver that is set up.
func openRig(t *testing.T) *rig {
	t.Helper()
	b, err := cuda.Open(0)
	return rigOf(t, b, err)
}

// rigOf closes an opened backend when the test ends.
func rigOf(t *testing.T, b *cuda.Backend, err error) *rig {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &rig{b, t, rand.New(rand.NewPCG(1, 2))}
}

// span uploads n normals; skip elements lie before them.
func (r *rig) span(d kernels.DType, n, skip int) (kernels.Span, []float32) {
	x := make([]float32, n)
	var raw []byte
	for i := range x {
		x[i] = ref.RoundBF16(float32(r.r.NormFloat64()))
		if d == kernels.BF16 {
			raw = binary.LittleEndian.AppendUint16(raw, ref.ToBF16(x[i]))
		} else {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x[i]))
		}
	}
	s := kernels.Span{Buf: r.Alloc((n + skip) * d.Size()), Off: skip, Len: n, DType: d}
	r.Upload(s, raw)
	return s, x
}

func (r *rig) zeros(d kernels.DType, n int) kernels.Span {
	s := kernels.Span{Buf: r.Alloc(n * d.Size()), Len: n, DType: d}
	r.Fill(s, 0)
	return s
}

func (r *rig) bytes(s kernels.Span) []byte {
	b := make([]byte, s.Len*s.DType.Size())
	r.Download(b, s)
	return b
}

func (r *rig) floats(s kernels.Span) []float32 {
	b := r.bytes(s)
	x := make([]float32, s.Len)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// TestTensorProduct: operands read as they lie and operands gathered give the same bits, near the
// formula; a row's bits do not depend on the batch, its place, or the pieces that rows are taken in.
func TestTensorProduct(t *testing.T) {
	r := newRig(t)
	const m, n, k = 300, 72, 136 // m and n end inside a tile, k inside a slice but at a piece of 8
	a, x := r.span(kernels.BF16, m*k, 0)
	w, y := r.span(kernels.BF16, n*k, 0)
	product := func(a, w kernels.Span, rows int) kernels.Span {
		c := r.zeros(kernels.F32, rows*n)
		r.Gemm(&kernels.Gemm{Math: kernels.MathBF16, A: kernels.NewMat(a, rows, k), B: kernels.NewMat(w, n, k), C: kernels.NewMat(c, rows, n)})
		return c
	}
	whole := product(a, w, m)
	for i, got := range r.floats(whole) {
		want := 0.0
		for j := range k {
			want += float64(x[i/n*k+j]) * float64(y[i%n*k+j])
		}
		if !(math.Abs(float64(got)-want) <= 1e-4) {
			t.Fatalf("element %d: %g, want %g", i, got, want)
		}
	}
	want := r.bytes(whole)
	// The same numbers where they cannot be read as they lie: an odd start, or fp32.
	odd := func(x []float32) kernels.Span {
		s := kernels.Span{Buf: r.Alloc(2*len(x) + 6), Off: 3, Len: len(x), DType: kernels.BF16}
		var raw []byte
		for _, v := range x {
			raw = binary.LittleEndian.AppendUint16(raw, ref.ToBF16(v))
		}
		r.Upload(s, raw)
		return s
	}
	ax, wy := odd(x), odd(y)
	for name, c := range map[string]kernels.Span{"left gathered": product(ax, w, m), "right gathered": product(a, wy, m), "both gathered": product(ax, wy, m)} {
		if !bytes.Equal(r.bytes(c), want) {
			t.Errorf("%s: other bits", name)
		}
	}
	for _, lo := range []int{0, 1, 130, m - 1} {
		one := product(a.Slice(lo*k, (lo+1)*k), w, 1)
		if !bytes.Equal(r.bytes(one), want[lo*n*4:(lo+1)*n*4]) {
			t.Errorf("row %d alone has other bits", lo)
		}
	}
	r.SetMostGathered(1)
	if !bytes.Equal(r.bytes(product(ax, wy, m)), want) {
		t.Error("rows in pieces: other bits")
	}
}

// TestTensorSamples: a weight gradient is the samples' products added in order, whatever samples
// without rows lie between them.
func TestTensorSamples(t *testing.T) {
	r := newRig(t)
	const m, n, k = 24, 40, 150
	a, _ := r.span(kernels.BF16, k*m, 0)
	g, _ := r.span(kernels.F32, k*n, 1)
	gradient := func(segments ...int) []byte {
		c := r.zeros(kernels.F32, m*n)
		at := 0
		run := func(rows int, segments []int) {
			r.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: kernels.MathBF16, A: kernels.NewMat(a.Slice(at*m, k*m), rows, m), B: kernels.NewMat(g.Slice(at*n, k*n), rows, n),
				C: kernels.NewMat(c, m, n), Segments: segments, Alpha: 0.5, Accumulate: true})
			at += rows
		}
		if segments[0] < 0 { // in two calls
			run(97, []int{0, 33, 64})
			run(53, []int{0, 53})
		} else {
			run(k, segments)
		}
		return r.bytes(c)
	}
	want := gradient(33, 64, 53)
	if !bytes.Equal(gradient(0, 33, 0, 0, 64, 53, 0), want) {
		t.Error("samples without rows change the sum")
	}
	if !bytes.Equal(gradient(-1), want) {
		t.Error("a micro-batch of two and one of one add to another sum")
	}
}

// TestTensorAttention: what a query gets, forward and backward, is the same bits alone, in a batch, and
// where its operands had to be copied first.
func TestTensorAttention(t *testing.T) {
	testAttentionBits(newRig(t))
}

func testAttentionBits(r *rig) {
	r.t.Helper()
	const b, s, h, kh, d = 2, 70, 4, 2, 40
	q, x := r.span(kernels.BF16, b*s*h*d, 0)
	k, y := r.span(kernels.BF16, b*s*kh*d, 0)
	v, z := r.span(kernels.BF16, b*s*kh*d, 0)
	g, w := r.span(kernels.BF16, b*s*h*d, 0)
	all := func(d kernels.DType, x []float32) kernels.Span { // the same numbers in another type
		span := r.zeros(d, len(x))
		var raw []byte
		for _, v := range x {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		r.Upload(span, raw)
		return span
	}
	attend := func(q, k, v, g kernels.Span, from, n int) (results []byte) {
		heads := func(x kernels.Span, h int) kernels.Heads {
			return kernels.NewHeads(x.Slice(from*s*h*d, (from+n)*s*h*d), n, s, h, d)
		}
		out := func(h int) kernels.Heads {
			return kernels.NewHeads(r.zeros(kernels.F32, n*s*h*d), n, s, h, d)
		}
		a := kernels.AttentionBackward{Attention: kernels.Attention{Math: kernels.MathBF16, Scale: 0.2, Causal: true, Q: heads(q, h), K: heads(k, kh), V: heads(v, kh), O: out(h),
			LSE: r.zeros(kernels.F32, n*h*s)}, DO: heads(g, h), DQ: out(h), DK: out(kh), DV: out(kh), Delta: r.zeros(kernels.F32, n*h*s)}
		r.Attention(&a.Attention)
		r.AttentionBackward(&a)
		for _, x := range []kernels.Heads{a.O, a.DQ, a.DK, a.DV} {
			results = append(results, r.bytes(x.Span.Slice((n-1)*s*x.H*d, n*s*x.H*d))...)
		}
		return results
	}
	want := attend(q, k, v, g, 0, b)
	if !bytes.Equal(attend(q, k, v, g, 1, 1), want) {
		r.t.Error("the second sample alone: other bits")
	}
	if !bytes.Equal(attend(all(kernels.F32, x), all(kernels.F32, y), all(kernels.F32, z), all(kernels.F32, w), 0, b), want) {
		r.t.Error("operands in fp32 that are bf16 numbers: other bits")
	}
}
