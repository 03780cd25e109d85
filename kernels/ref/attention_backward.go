package ref

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// The backward of Attention recomputes probabilities from LSE and takes two passes,
// so that no sum is ever split: queries (Delta, DQ), then keys (DK, DV). For a query i
// and a key j that it sees (elsewhere p = dS = +0)
//
//	p = exp2(fma(s, c, -LSE[i])), or exp2(z - LSE[i]) with a bias; 0 where LSE = -Inf
//	Delta[i] = dO[i] · O[i]           the sum of sum.go, fused
//	dP = dO[i] · v[j]                 over d, as a product of Math
//	dS = (p·(dP - Delta[i]))·Scale
//
// and, as products of Math (p and dS rounded to bf16 in bf16 math),
//
//	DQ[i] = sum over keys of dS·k[j]      zero-padded to 32 at the sequence's last key
//	DK[j] = sum over queries of dS·q[i]   zero-padded to 32 after the last query
//	DV[j] = sum over queries of p·dO[i]   the same
//
// Keys beyond KeyLens get zeros. With grouped heads each query head's DK and DV are
// formed alone and added in the order of the heads.

// AttentionBackwardQueries is Delta and DQ for queries lo to hi-1 of B·H·Sq.
func AttentionBackwardQueries(a *kernels.AttentionBackward, lo, hi int) {
	checkAttention(&a.Attention)
	var g *gradients
	for u := lo; u < hi; u++ {
		b, h, i := unit(&a.Attention, u)
		if g == nil || g.b != b || g.h != h {
			g = newGradients(a, b, h)
		}
		o := make([]float32, a.O.D)
		Load(o, a.O.Span, a.O.At(b, i, h))
		do := make([]float32, a.DO.D)
		Load(do, a.DO.Span, a.DO.At(b, i, h))
		a.Delta.F32()[u] = dot(do, o)
		_, ds := g.row(i)
		dq := make([]float32, a.Q.D)
		g.across(dq, ds, g.keyColumns)
		Store(a.DQ.Span, a.DQ.At(b, i, h), dq)
	}
}

// AttentionBackwardKeys is DK and DV for key heads lo to hi-1 of B·K.H.
func AttentionBackwardKeys(a *kernels.AttentionBackward, lo, hi int) {
	group := a.Q.H / a.K.H
	for u := lo; u < hi; u++ {
		b, kh := u/a.K.H, u%a.K.H
		n := Keys(&a.Attention, b)
		dk, dv := make([]float32, a.K.S*a.K.D), make([]float32, a.K.S*a.V.D)
		for h := kh * group; h < (kh+1)*group; h++ {
			g := newGradients(a, b, h)
			padded := (a.Q.S + 31) / 32 * 32
			p, ds := make([]float32, n*padded), make([]float32, n*padded)
			for i := range a.Q.S {
				pi, dsi := g.row(i)
				for j := range n {
					p[j*padded+i], ds[j*padded+i] = pi[j], dsi[j]
				}
			}
			queries, outputs := columnLines(g.queries, padded), columnLines(g.outputs, padded)
			row := make([]float32, max(a.K.D, a.V.D))
			for j := range n {
				g.across(row[:a.K.D], ds[j*padded:(j+1)*padded], queries)
				addHead(dk[j*a.K.D:(j+1)*a.K.D], row, h == kh*group)
				g.across(row[:a.V.D], p[j*padded:(j+1)*padded], outputs)
				addHead(dv[j*a.V.D:(j+1)*a.V.D], row, h == kh*group)
			}
		}
		for j := range a.K.S {
			Store(a.DK.Span, a.DK.At(b, j, kh), dk[j*a.K.D:(j+1)*a.K.D])
			Store(a.DV.Span, a.DV.At(b, j, kh), dv[j*a.V.D:(j+1)*a.V.D])
		}
	}
}

// addHead is dst = x for the first head, and dst += x after it.
func addHead(dst, x []float32, first bool) {
	if first {
		copy(dst, x)
		return
	}
	combine(Add, dst, x[:len(dst)])
}

// gradients is the input of one head's backward.
type gradients struct {
	a                *kernels.AttentionBackward
	b, h             int
	queries, outputs []line // q and dO by query
	keys, values     []line // by key
	keyColumns       []line // keys over j, zero-padded to 32
	lse, delta       []float32
}

func newGradients(a *kernels.AttentionBackward, b, h int) *gradients {
	n, kh := Keys(&a.Attention, b), h/(a.Q.H/a.K.H)
	g := &gradients{a: a, b: b, h: h}
	g.queries, g.outputs = headLines(a.Math, a.Q, b, h, a.Q.S), headLines(a.Math, a.DO, b, h, a.Q.S)
	g.keys, g.values = headLines(a.Math, a.K, b, kh, n), headLines(a.Math, a.V, b, kh, n)
	g.keyColumns = columnLines(g.keys, (n+31)/32*32)
	at := (b*a.Q.H + h) * a.Q.S
	g.lse, g.delta = a.LSE.F32()[at:at+a.Q.S], a.Delta.F32()[at:at+a.Q.S]
	return g
}

// row is p and dS of query i, over its sequence's keys, zero-padded to 32.
func (g *gradients) row(i int) (p, ds []float32) {
	a, n := g.a, len(g.keys)
	p, ds = g.slopes(i)
	for j := range n {
		ds[j] = Mul(ds[j], a.Scale)
	}
	if a.Math == kernels.MathBF16 {
		roundAll(p)
		roundAll(ds)
	}
	return p, ds
}

// slopes is p and the gradient of the scores as they enter the softmax, in fp32.
func (g *gradients) slopes(i int) (p, ds []float32) {
	a, n := g.a, len(g.keys)
	p, ds = make([]float32, (n+31)/32*32), make([]float32, (n+31)/32*32)
	s := newScores(&a.Attention, g.b, g.h, i)
	dots(a.Math, p[:n], g.queries[i], g.keys)
	dots(a.Math, ds[:n], g.outputs[i], g.values)
	s.shift(p[:n], 0)
	for j := range n {
		w := float32(0)
		if lse := g.lse[i]; !math.IsInf(float64(lse), -1) {
			w = s.weight(p[j], j, lse)
		}
		p[j] = w
		if j >= s.seen {
			ds[j] = 0
			continue
		}
		ds[j] = Mul(w, Sub(ds[j], g.delta[i]))
	}
	return p, ds
}

// AttentionBackwardBias adds p·(dP - Delta) to DBias for heads lo to hi-1, samples in
// order where they share it. Delta is that of AttentionBackwardQueries.
func AttentionBackwardBias(a *kernels.AttentionBackward, lo, hi int) {
	if a.DBias.Empty() {
		return
	}
	for h := lo; h < hi; h++ {
		for b := range a.Q.B {
			g := newGradients(a, b, h)
			for i := range a.Q.S {
				_, ds := g.slopes(i)
				at := b*a.Bias.SB + h*a.Bias.SH + i*a.Bias.SQ
				addTo(a.DBias.Slice(at, at+len(g.keys)), ds[:len(g.keys)])
			}
		}
	}
}

// across is dst[d] = x · columns[d].
func (g *gradients) across(dst, x []float32, columns []line) {
	clear(dst)
	if len(columns) == 0 || len(columns[0].x) == 0 {
		return
	}
	dots(g.a.Math, dst, newLine(x), columns)
}

// columnLines turns rows into columns, zero-padded to a length.
func columnLines(rows []line, padded int) []line {
	if len(rows) == 0 {
		return nil
	}
	d := len(rows[0].x)
	all := make([]float32, d*padded)
	for i, r := range rows {
		for c, x := range r.x {
			all[c*padded+i] = x
		}
	}
	out := make([]line, d)
	for c := range out {
		out[c] = newLine(all[c*padded : (c+1)*padded])
	}
	return out
}

// AttentionBackward computes every gradient.
func (Backend) AttentionBackward(a *kernels.AttentionBackward) {
	AttentionBackwardQueries(a, 0, a.Q.B*a.Q.H*a.Q.S)
	AttentionBackwardKeys(a, 0, a.K.B*a.K.H)
	AttentionBackwardBias(a, 0, a.Q.H)
}
