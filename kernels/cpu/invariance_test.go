package cpu

import (
	"bytes"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// A row's bits must not depend on the batch it is in, on its place there, nor on the
// number of threads: the first update of a policy then has ratio exactly 1, and a
// micro-batch of any size gives the same weight gradient.

// invariant runs f with one and with two threads.
func invariant(t *testing.T, f func(t *testing.T, b *Backend)) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	for _, threads := range []int{1, 2} {
		b := NewWith(Options{Path: path, Threads: threads})
		defer b.Close()
		t.Run(b.String(), func(t *testing.T) { f(t, b) })
	}
}

func normals(b *Backend, d kernels.DType, n int, seed uint64) kernels.Span {
	x := make([]float32, n)
	rng.New(seed).Normal(x, 0)
	s := kernels.Span{Buf: b.Alloc(4 * n), Len: n, DType: kernels.F32}
	copy(s.F32(), x)
	if d == kernels.F32 {
		return s
	}
	h := kernels.Span{Buf: b.Alloc(2 * n), Len: n, DType: d}
	for i, v := range x {
		h.BF16()[i] = ref.ToBF16(v)
	}
	return h
}

func empty(b *Backend, d kernels.DType, n int) kernels.Span {
	return kernels.Span{Buf: b.Alloc(n * d.Size()), Len: n, DType: d}
}

var dtypes = []kernels.DType{kernels.F32, kernels.BF16}

func mathOf(d kernels.DType) kernels.Math {
	if d == kernels.BF16 {
		return kernels.MathBF16
	}
	return kernels.MathF32
}

func TestRowsOfAProductDoNotDependOnTheBatch(t *testing.T) {
	const M, N, K = 64, 100, 170
	for _, d := range dtypes {
		t.Run(d.String(), func(t *testing.T) {
			var first []byte
			invariant(t, func(t *testing.T, b *Backend) {
				x, w := normals(b, d, M*K, 1), normals(b, d, N*K, 2)
				packed := b.Pack(kernels.NewMat(w, N, K), mathOf(d))
				product := func(lo, hi int) []byte {
					y := empty(b, d, (hi-lo)*N)
					b.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: mathOf(d), W: packed, C: kernels.NewMat(y, hi-lo, N),
						A: kernels.NewMat(x, M, K).RowRange(lo, hi)})
					return y.Raw()
				}
				whole := product(0, M)
				if first == nil {
					first = whole
				} else if !bytes.Equal(first, whole) {
					t.Error("the number of threads changes the product")
				}
				for _, m := range []int{1, 7, 8, 33} {
					for lo := 0; lo+m <= M; lo += m {
						if row := N * d.Size(); !bytes.Equal(product(lo, lo+m), whole[lo*row:(lo+m)*row]) {
							t.Fatalf("rows %d to %d differ in a batch of %d", lo, lo+m, m)
						}
					}
				}
			})
		})
	}
}

func TestAttentionDoesNotDependOnTheBatch(t *testing.T) {
	const B, S, H, D = 5, 70, 2, 64
	lens := []int32{70, 1, 33, 64, 0}
	for _, d := range dtypes {
		t.Run(d.String(), func(t *testing.T) {
			var first []byte
			invariant(t, func(t *testing.T, b *Backend) {
				q, k, v := normals(b, d, B*S*H*D, 1), normals(b, d, B*S*H*D, 2), normals(b, d, B*S*H*D, 3)
				attend := func(lo, hi int) []byte {
					n := S * H * D
					o := empty(b, d, (hi-lo)*n)
					part := func(s kernels.Span) kernels.Heads { return kernels.NewHeads(s.Slice(lo*n, hi*n), hi-lo, S, H, D) }
					b.Attention(&kernels.Attention{Math: mathOf(d), Q: part(q), K: part(k), V: part(v),
						O: kernels.NewHeads(o, hi-lo, S, H, D), Scale: 0.125, KeyLens: lens[lo:hi]})
					return o.Raw()
				}
				whole := attend(0, B)
				if first == nil {
					first = whole
				} else if !bytes.Equal(first, whole) {
					t.Error("the number of threads changes attention")
				}
				for i := range B {
					if n := S * H * D * d.Size(); !bytes.Equal(attend(i, i+1), whole[i*n:(i+1)*n]) {
						t.Errorf("sequence %d of %d keys differs alone", i, lens[i])
					}
				}
			})
		})
	}
}

func TestConvDoesNotDependOnTheBatch(t *testing.T) {
	const N, H, W, C, Out = 3, 9, 11, 20, 33
	for _, d := range dtypes {
		t.Run(d.String(), func(t *testing.T) {
			var first []byte
			invariant(t, func(t *testing.T, b *Backend) {
				s := kernels.ConvShape{In: C, Out: Out, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
				x, w := normals(b, d, N*H*W*C, 1), normals(b, d, Out*9*C, 2)
				conv := func(lo, hi int) []byte {
					y := empty(b, d, (hi-lo)*H*W*Out)
					b.Conv(&kernels.Conv{Shape: s, Math: mathOf(d), X: x.Slice(lo*H*W*C, hi*H*W*C), Y: y, N: hi - lo, H: H, W: W, Weight: w})
					return y.Raw()
				}
				whole := conv(0, N)
				if first == nil {
					first = whole
				} else if !bytes.Equal(first, whole) {
					t.Error("the number of threads changes the convolution")
				}
				for i := range N {
					if n := H * W * Out * d.Size(); !bytes.Equal(conv(i, i+1), whole[i*n:(i+1)*n]) {
						t.Errorf("picture %d differs alone", i)
					}
				}
			})
		})
	}
}

func TestNormDoesNotDependOnTheBatch(t *testing.T) {
	const R, C = 65, 200
	for _, d := range dtypes {
		t.Run(d.String(), func(t *testing.T) {
			invariant(t, func(t *testing.T, b *Backend) {
				x, w := normals(b, d, R*C, 1), normals(b, d, C, 2)
				for _, kind := range []kernels.NormKind{kernels.LayerNorm, kernels.RMSNorm} {
					norm := func(lo, hi int) []byte {
						y := empty(b, d, (hi-lo)*C)
						b.Norm(&kernels.Norm{Kind: kind, X: kernels.NewMat(x, R, C).RowRange(lo, hi), Y: kernels.NewMat(y, hi-lo, C), Weight: w, Eps: 1e-6})
						return y.Raw()
					}
					whole := norm(0, R)
					for _, m := range []int{1, 7, 8, 64} {
						if row := C * d.Size(); !bytes.Equal(norm(R-m, R), whole[(R-m)*row:]) {
							t.Errorf("the last %d rows differ alone", m)
						}
					}
				}
			})
		})
	}
}

// TestMicroBatchesGiveTheSameGradient adds the weight gradient of eight samples of
// uneven length in micro-batches of one, three and eight.
func TestMicroBatchesGiveTheSameGradient(t *testing.T) {
	const N, K = 70, 45
	lengths := []int{5, 32, 1, 40, 33, 7, 64, 31}
	rows := 0
	for _, n := range lengths {
		rows += n
	}
	for _, d := range dtypes {
		t.Run(d.String(), func(t *testing.T) {
			var first []byte
			invariant(t, func(t *testing.T, b *Backend) {
				dy, x := kernels.NewMat(normals(b, d, rows*N, 1), rows, N), kernels.NewMat(normals(b, d, rows*K, 2), rows, K)
				for _, batch := range []int{1, 3, 8} {
					dw := empty(b, kernels.F32, N*K)
					clear(dw.F32())
					db := empty(b, kernels.F32, N)
					clear(db.F32())
					at := 0
					for s := 0; s < len(lengths); s += batch {
						part := lengths[s:min(s+batch, len(lengths))]
						end := at
						for _, n := range part {
							end += n
						}
						b.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: mathOf(d), A: dy.RowRange(at, end), B: x.RowRange(at, end),
							C: kernels.NewMat(dw, N, K), Segments: part, Accumulate: true})
						b.SumRows(&kernels.SumRows{X: dy.RowRange(at, end), Segments: part, Out: db, Accumulate: true})
						at = end
					}
					got := append(append([]byte(nil), dw.Raw()...), db.Raw()...)
					if first == nil {
						first = got
					} else if !bytes.Equal(first, got) {
						t.Errorf("micro-batches of %d change the gradient", batch)
					}
				}
			})
		})
	}
}
