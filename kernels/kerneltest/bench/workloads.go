package bench

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// matrixProducts: linear layers with weights packed once ("linear") and on every
// call ("linear_repacked"), and the two products of their backward; of the sizes that are asked for, if any.
func matrixProducts(sizes [][3]int) []workload {
	// SD3-medium's width, a tiny model's, a block of text, one decoding step.
	forward := [][3]int{{1024, 1024, 1024}, {974, 1536, 1536}, {974, 6144, 1536}, {974, 1536, 6144}, {4096, 1536, 1536},
		{4608, 128, 128}, {4608, 512, 128}, {77, 768, 768}, {8, 4096, 1024}, {8, 151936, 1024}}
	backward := [][3]int{{1024, 1024, 1024}, {974, 1536, 1536}, {974, 6144, 1536}, {4608, 512, 128}}
	if len(sizes) > 0 {
		forward, backward = sizes, sizes
	}
	var all []workload
	add := func(op string, s [3]int, d kernels.DType, prepare func(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error))) {
		all = append(all, workload{op: op, shape: s[:], dtype: d, work: 2 * float64(s[0]) * float64(s[1]) * float64(s[2]),
			prepare: func(m *maker) (func(), func() (int, error)) { return prepare(m, s[0], s[1], s[2], d) }})
	}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, s := range forward {
			add("linear", s, d, linear)
			if s[1] < 100000 {
				add("linear_repacked", s, d, linearRepacked)
			}
		}
	}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, s := range backward {
			add("linear_dx", s, d, linearDX)
			add("linear_dw", s, d, linearDW)
		}
	}
	return all
}

// largeProducts are those of pictures of 1024 x 1024, and squares that fill a device.
func largeProducts() []workload {
	var all []workload
	for _, s := range [][3]int{{4352, 1536, 1536}, {4352, 6144, 1536}, {4352, 1536, 6144}, {4096, 4096, 4096}, {8192, 8192, 8192}} {
		work := 2 * float64(s[0]) * float64(s[1]) * float64(s[2])
		all = append(all, workload{op: "linear", shape: s[:], dtype: kernels.BF16, work: work,
			prepare: func(m *maker) (func(), func() (int, error)) { return linear(m, s[0], s[1], s[2], kernels.BF16) }},
			workload{op: "linear_dx", shape: s[:], dtype: kernels.BF16, work: work,
				prepare: func(m *maker) (func(), func() (int, error)) { return linearDX(m, s[0], s[1], s[2], kernels.BF16) }})
	}
	return all
}

func linear(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error)) {
	x, w, y := m.matrix(d, M, K), m.matrix(d, N, K), m.result(d, M, N)
	packed := m.b.Pack(w, mathOf(d))
	m.owned = append(m.owned, packed.Buf)
	run := func() { m.b.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: mathOf(d), A: x, W: packed, C: y}) }
	return run, func() (int, error) { return checkNT(m, x, w, y, mathOf(d)) }
}

func linearRepacked(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error)) {
	x, w, y := m.matrix(d, M, K), m.matrix(d, N, K), m.result(d, M, N)
	run := func() { m.b.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: mathOf(d), A: x, B: w, C: y}) }
	return run, func() (int, error) { return checkNT(m, x, w, y, mathOf(d)) }
}

// checkNT recomputes the first, a middle and the last row at the first and last columns.
func checkNT(m *maker, x, w, y kernels.Mat, math kernels.Math) (int, error) {
	hx, hw, hy := m.hostMat(x), m.hostMat(w), m.hostMat(y)
	wide := min(96, hy.Cols)
	total := 0
	for _, r := range sampled(hy.Rows) {
		for _, c := range []int{0, hy.Cols - wide} {
			want := freshMat(y.DType, 1, wide)
			ref.Backend{}.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: math, A: hx.RowRange(r, r+1), B: hw.RowRange(c, c+wide), C: want})
			n, err := m.same(hy.RowRange(r, r+1).ColRange(c, c+wide), want)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

// linearDX is dX[M,K] = dY[M,N]·W, with the weight packed for the forward.
func linearDX(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error)) {
	dy, w, dx := m.matrix(d, M, N), m.matrix(d, N, K), m.result(d, M, K)
	packed := m.b.Pack(w, mathOf(d))
	m.owned = append(m.owned, packed.Buf)
	run := func() { m.b.Gemm(&kernels.Gemm{Layout: kernels.NN, Math: mathOf(d), A: dy, W: packed, C: dx}) }
	return run, func() (int, error) {
		hy, hw, hx := m.hostMat(dy), m.hostMat(w), m.hostMat(dx)
		total := 0
		for _, r := range sampled(M) {
			want := freshMat(d, 1, min(96, K))
			ref.Backend{}.Gemm(&kernels.Gemm{Layout: kernels.NN, Math: mathOf(d), A: hy.RowRange(r, r+1), B: hw.ColRange(0, want.Cols), C: want})
			n, err := m.same(hx.RowRange(r, r+1).ColRange(0, want.Cols), want)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}

// linearDW is dW[N,K] = dYᵀ·X, in f32 as the optimiser wants it.
func linearDW(m *maker, M, N, K int, d kernels.DType) (func(), func() (int, error)) {
	dy, x, dw := m.matrix(d, M, N), m.matrix(d, M, K), m.result(kernels.F32, N, K)
	run := func() { m.b.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: mathOf(d), A: dy, B: x, C: dw}) }
	return run, func() (int, error) {
		hy, hx, hw := m.hostMat(dy), m.hostMat(x), m.hostMat(dw)
		total := 0
		for _, r := range sampled(N) {
			want := freshMat(kernels.F32, 1, min(96, K))
			ref.Backend{}.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: mathOf(d), A: hy.ColRange(r, r+1), B: hx.ColRange(0, want.Cols), C: want})
			n, err := m.same(hw.RowRange(r, r+1).ColRange(0, want.Cols), want)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}

// sampled are the rows that are checked: ends, and two between.
func sampled(rows int) []int {
	return []int{0, rows / 3, rows * 2 / 3, rows - 1}
}

// convolutions: 3x3, as many channels out as in. Pictures are channels-last here
// always, so one workload answers both of the peer's layouts.
func convolutions() []workload {
	var all []workload
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, s := range [][2]int{{512, 32}, {256, 128}, {128, 256}, {16, 64}} {
			c, r := s[0], s[1]
			for _, op := range []string{"conv3x3", "conv3x3_channels_last"} {
				all = append(all, workload{op: op, shape: []int{c, r, r}, dtype: d, work: 18 * float64(c) * float64(c) * float64(r) * float64(r),
					prepare: func(m *maker) (func(), func() (int, error)) { return convolve(m, c, r, d) }})
			}
		}
	}
	return all
}

func convolve(m *maker, c, r int, d kernels.DType) (func(), func() (int, error)) {
	shape := kernels.ConvShape{In: c, Out: c, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
	x, w, y := m.random(d, r*r*c), m.random(d, c*9*c), m.empty(d, r*r*c)
	packed := m.b.PackConv(w, shape, mathOf(d))
	m.owned = append(m.owned, packed.Buf)
	a := &kernels.Conv{Shape: shape, Math: mathOf(d), X: x, Y: y, N: 1, H: r, W: r, Packed: packed}
	run := func() { m.b.Conv(a) }
	return run, func() (int, error) {
		// Four pixels of the result, each the centre of a picture of 3x3.
		hx, hw, hy := m.host(x), m.host(w), m.host(y)
		centre := shape
		centre.Top, centre.Left, centre.Bottom, centre.Right = 0, 0, 0, 0
		total := 0
		for _, p := range [][2]int{{0, 0}, {1, r / 2}, {r / 2, r - 1}, {r - 1, r - 2}} {
			patch := fresh(d, 9*c)
			size := d.Size()
			clear(patch.Raw())
			for dy := -1; dy <= 1; dy++ {
				for dx := -1; dx <= 1; dx++ {
					i, j := p[0]+dy, p[1]+dx
					if i < 0 || j < 0 || i >= r || j >= r {
						continue
					}
					copy(patch.Raw()[((dy+1)*3+dx+1)*c*size:], hx.Slice((i*r+j)*c, (i*r+j+1)*c).Raw())
				}
			}
			want := fresh(d, c)
			ref.Backend{}.Conv(&kernels.Conv{Shape: centre, Math: mathOf(d), X: patch, Weight: hw, Y: want, N: 1, H: 3, W: 3})
			at := (p[0]*r + p[1]) * c
			n, err := m.same(kernels.NewMat(hy.Slice(at, at+c), 1, c), kernels.NewMat(want, 1, c))
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}

func attentions() []workload {
	var all []workload
	shapes := [][4]int{{2, 24, 487, 64}, {1, 24, 1178, 64}, {64, 2, 80, 64}, {8, 8, 512, 128}}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, s := range shapes {
			all = append(all, workload{op: "attention", shape: s[:], dtype: d, work: 4 * scores(s) * float64(s[3]),
				prepare: func(m *maker) (func(), func() (int, error)) { return attend(m, s, d) }})
		}
	}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, s := range shapes[:3] {
			all = append(all, workload{op: "attention_backward", shape: s[:], dtype: d, work: 10 * scores(s) * float64(s[3]),
				prepare: func(m *maker) (func(), func() (int, error)) { return attendBackward(m, s, d) }})
		}
	}
	return all
}

// largeAttentions are those of pictures of 1024 x 1024 and of long sequences; backward is shorter, since ref checks it.
func largeAttentions() []workload {
	var all []workload
	for _, s := range [][4]int{{1, 24, 4352, 64}, {4, 24, 4352, 64}, {1, 24, 4608, 128}, {1, 16, 16384, 128}} {
		all = append(all, workload{op: "attention", shape: s[:], dtype: kernels.BF16, work: 4 * scores(s) * float64(s[3]),
			prepare: func(m *maker) (func(), func() (int, error)) { return attend(m, s, kernels.BF16) }})
	}
	for _, s := range [][4]int{{16, 24, 1536, 64}, {16, 24, 1536, 128}} {
		all = append(all, workload{op: "attention_backward", shape: s[:], dtype: kernels.BF16, work: 10 * scores(s) * float64(s[3]),
			prepare: func(m *maker) (func(), func() (int, error)) { return attendBackward(m, s, kernels.BF16) }})
	}
	return all
}

// scores is the number of query-key pairs of a shape [batch, heads, sequence, dim].
func scores(s [4]int) float64 { return float64(s[0]*s[1]) * float64(s[2]) * float64(s[2]) }

func (m *maker) heads(s [4]int, d kernels.DType) kernels.Heads {
	return kernels.NewHeads(m.random(d, s[0]*s[1]*s[2]*s[3]), s[0], s[2], s[1], s[3])
}

func newAttention(m *maker, s [4]int, d kernels.DType) *kernels.Attention {
	a := &kernels.Attention{Math: mathOf(d), Q: m.heads(s, d), K: m.heads(s, d), V: m.heads(s, d), O: m.heads(s, d), Scale: 1 / root(s[3])}
	a.LSE = m.empty(kernels.F32, s[0]*s[1]*s[2])
	return a
}

func root(d int) float32 { return ref.Sqrt(float32(d)) }

func attend(m *maker, s [4]int, d kernels.DType) (func(), func() (int, error)) {
	a := newAttention(m, s, d)
	run := func() { m.b.Attention(a) }
	return run, func() (int, error) {
		h := hostAttention(m, a)
		total := 0
		for _, q := range sampled(s[2]) {
			one := h
			b, head := s[0]-1, s[1]-1
			one.Q, one.K, one.V = pick(h.Q, b, head, q, q+1), pick(h.K, b, head, 0, s[2]), pick(h.V, b, head, 0, s[2])
			one.O, one.LSE = kernels.NewHeads(fresh(d, s[3]), 1, 1, 1, s[3]), kernels.Span{}
			ref.Backend{}.Attention(&one)
			n, err := sameHead(m, h.O, b, head, q, one.O, 0)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}

func attendBackward(m *maker, s [4]int, d kernels.DType) (func(), func() (int, error)) {
	f := newAttention(m, s, d)
	m.b.Attention(f)
	g := &kernels.AttentionBackward{Attention: *f, DO: m.heads(s, d), DQ: m.heads(s, d), DK: m.heads(s, d), DV: m.heads(s, d),
		Delta: m.empty(kernels.F32, s[0]*s[1]*s[2])}
	run := func() { m.b.AttentionBackward(g) }
	return run, func() (int, error) {
		h, b, head := hostAttention(m, f), s[0]-1, s[1]-1
		one := kernels.AttentionBackward{Attention: h, Delta: fresh(kernels.F32, s[2])}
		cut := func(x kernels.Heads) kernels.Heads { return pick(x, b, head, 0, s[2]) }
		one.Q, one.K, one.V, one.O = cut(h.Q), cut(h.K), cut(h.V), cut(h.O)
		one.LSE = h.LSE.Slice((b*s[1]+head)*s[2], (b*s[1]+head+1)*s[2])
		one.DO = cut(hostHeads(m, g.DO))
		part := func() kernels.Heads { return kernels.NewHeads(fresh(d, s[2]*s[3]), 1, s[2], 1, s[3]) }
		one.DQ, one.DK, one.DV = part(), part(), part()
		ref.Backend{}.AttentionBackward(&one)
		total := 0
		for _, p := range []struct{ got, want kernels.Heads }{{g.DQ, one.DQ}, {g.DK, one.DK}, {g.DV, one.DV}} {
			got := hostHeads(m, p.got)
			for r := range s[2] {
				n, err := sameHead(m, got, b, head, r, p.want, r)
				if err != nil {
					return 0, err
				}
				total += n
			}
		}
		return total, nil
	}
}

func hostHeads(m *maker, h kernels.Heads) kernels.Heads {
	h.Span = m.host(h.Span)
	return h
}

func hostAttention(m *maker, a *kernels.Attention) kernels.Attention {
	h := *a
	h.Q, h.K, h.V, h.O = hostHeads(m, a.Q), hostHeads(m, a.K), hostHeads(m, a.V), hostHeads(m, a.O)
	h.LSE = m.host(a.LSE)
	return h
}

// pick is the operand of one batch, one head, and rows lo to hi-1.
func pick(h kernels.Heads, b, head, lo, hi int) kernels.Heads {
	h.Span = h.Span.Slice(h.At(b, lo, head), h.At(b, hi-1, head)+h.D)
	h.B, h.H, h.S = 1, 1, hi-lo
	return h
}

func sameHead(m *maker, got kernels.Heads, b, head, row int, want kernels.Heads, wantRow int) (int, error) {
	at := func(h kernels.Heads, b, s, head int) kernels.Mat {
		i := h.At(b, s, head)
		return kernels.NewMat(h.Span.Slice(i, i+h.D), 1, h.D)
	}
	return m.same(at(got, b, row, head), at(want, 0, wantRow, 0))
}

// rowOps: operations that move memory more than they compute. Work is bytes read and written.
func rowOps() []workload {
	var all []workload
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		add := func(op string, shape []int, prepare func(m *maker) (func(), func() (int, error))) {
			n := 2 * d.Size()
			for _, s := range shape {
				n *= s
			}
			all = append(all, workload{op: op, shape: shape, dtype: d, work: float64(n), bytes: true, prepare: prepare})
		}
		add("layer_norm", []int{974, 1536}, func(m *maker) (func(), func() (int, error)) {
			return rowwise(m, 974, 1536, d, sampledRows, func(b kernels.Backend, x, y kernels.Mat) {
				b.Norm(&kernels.Norm{Kind: kernels.LayerNorm, X: x, Y: y, Eps: 1e-5})
			})
		})
		add("gelu_tanh", []int{974, 6144}, func(m *maker) (func(), func() (int, error)) {
			return rowwise(m, 974, 6144, d, sampledRows, func(b kernels.Backend, x, y kernels.Mat) {
				b.Unary(&kernels.Unary{Op: kernels.GELUTanh, X: x.Span, Y: y.Span})
			})
		})
		add("softmax", []int{974, 6144}, func(m *maker) (func(), func() (int, error)) {
			return rowwise(m, 974, 6144, d, sampledRows, func(b kernels.Backend, x, y kernels.Mat) { b.Softmax(&kernels.Softmax{X: x, Y: y}) })
		})
		add("group_norm32", []int{1, 512, 128, 128}, func(m *maker) (func(), func() (int, error)) {
			return rowwise(m, 128*128, 512, d, allRows, func(b kernels.Backend, x, y kernels.Mat) {
				b.GroupNorm(&kernels.GroupNorm{X: x.Span, Y: y.Span, N: 1, HW: x.Rows, C: 512, Groups: 32, Eps: 1e-5})
			})
		})
	}
	return all
}

// How much of a result is recomputed: all where a row depends on every row.
const (
	sampledRows = false
	allRows     = true
)

func rowwise(m *maker, rows, cols int, d kernels.DType, all bool, op func(b kernels.Backend, x, y kernels.Mat)) (func(), func() (int, error)) {
	x, y := m.matrix(d, rows, cols), m.result(d, rows, cols)
	return func() { op(m.b, x, y) }, func() (int, error) {
		hx, hy := m.hostMat(x), m.hostMat(y)
		if all {
			want := freshMat(d, rows, cols)
			op(ref.Backend{}, hx, want)
			return m.same(hy, want)
		}
		total := 0
		for _, r := range sampled(rows) {
			want := freshMat(d, 1, cols)
			op(ref.Backend{}, hx.RowRange(r, r+1), want)
			n, err := m.same(hy.RowRange(r, r+1), want)
			if err != nil {
				return 0, err
			}
			total += n
		}
		return total, nil
	}
}

// draws: the next tokens of eight rows of a language model's logits, with penalty and bans beside the filters.
func draws() []workload {
	const rows, cols = 8, 152064
	var all []workload
	for _, o := range []struct {
		op string
		kernels.Draw
	}{{"draw", kernels.Draw{}}, {"draw_top_k", kernels.Draw{TopK: 50}}, {"draw_top_p", kernels.Draw{TopP: 0.9}}} {
		all = append(all, workload{op: o.op, shape: []int{rows, cols}, dtype: kernels.F32, work: 4 * rows * cols, bytes: true,
			prepare: func(m *maker) (func(), func() (int, error)) { return draw(m, rows, cols, o.Draw) }})
	}
	return all
}

func draw(m *maker, rows, cols int, settings kernels.Draw) (func(), func() (int, error)) {
	a := settings
	a.X = kernels.NewMat(m.logits(rows, cols), rows, cols)
	a.Uniform = m.empty(kernels.F64, rows)
	raw := make([]byte, 8*rows)
	for r := range rows {
		binary.LittleEndian.PutUint64(raw[8*r:], math.Float64bits((float64(r)+0.5)/float64(rows)))
	}
	m.b.Upload(a.Uniform, raw)
	a.Token, a.LogProb, a.Entropy = m.empty(kernels.I32, rows), m.empty(kernels.F32, rows), m.empty(kernels.F32, rows)
	return func() { m.b.Draw(&a) }, func() (int, error) {
		want := a
		want.X, want.Uniform = m.hostMat(a.X), m.host(a.Uniform)
		want.Token, want.LogProb, want.Entropy = fresh(kernels.I32, rows), fresh(kernels.F32, rows), fresh(kernels.F32, rows)
		ref.Backend{}.Draw(&want)
		for _, s := range [][2]kernels.Span{{a.Token, want.Token}, {a.LogProb, want.LogProb}, {a.Entropy, want.Entropy}} {
			if got := m.host(s[0]); string(got.Raw()) != string(s[1].Raw()) {
				return 0, fmt.Errorf("got %x, ref has %x", got.Raw(), s[1].Raw())
			}
		}
		return 3 * rows, nil
	}
}

// logits are those of a language model: a few likely tokens above many that are not.
func (m *maker) logits(rows, cols int) kernels.Span {
	s := m.random(kernels.F32, rows*cols)
	raw := make([]byte, 4*rows*cols)
	m.b.Download(raw, s)
	for i := range rows * cols {
		x := 2.5 * math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		if i%1999 == 7 {
			x += 12
		}
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
	}
	m.b.Upload(s, raw)
	return s
}
