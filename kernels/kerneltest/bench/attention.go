package bench

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

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
