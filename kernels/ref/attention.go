package ref

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Attention with an online softmax, for queries lo to hi-1 of B·H·Sq.
//
// Keys are taken in blocks of KeyBlock. With c = Scale·log2 e, for each block
//
//	s[j] = q · k[j]                    over d, as a product of Math
//	z[j] = fma(s[j], c, bias·log2 e)   where there is a bias
//	m' = max(m, c·max s), or max z     over the keys that are seen
//	r = exp2(m - m'); l = l·r, O = O·r where m' differs from m
//	p[j] = exp2(fma(s[j], c, -m')), or exp2(z[j] - m'); +0 for a key not seen
//	l = l + p[j]                       one key after another
//	O = O + p · V                      p rounded to bf16 in bf16 math
//
// and O·(1/l) at the end, LSE = fma(Log(l), log2 e, m). exp2 is Exp2Short in bf16 math
// and Exp2 in f32. While m' is -Inf, 0 stands in its place.
//
// A sequence has KeyLens keys; the sum over keys is zero-padded to 32 at its end, and the memory there is not read. A
// key hidden by causality has p = 0 and takes part in the product; but a block is left out as a whole where it starts
// beyond the reach of the last query of the query's group of QueryGroup. So a query's bits depend on its own row and
// place, its sequence's keys, and nothing else.
func Attention(a *kernels.Attention, lo, hi int) {
	checkAttention(a)
	var kv *keysAndValues
	for u := lo; u < hi; u++ {
		b, h, i := unit(a, u)
		if kv == nil || kv.b != b || kv.h != h {
			kv = loadKeysAndValues(a, b, h)
		}
		o, m, l := attend(a, kv, b, h, i)
		lse := float32(math.Inf(-1))
		if l != 0 {
			inv := Div(1, l)
			for d := range o {
				o[d] = Mul(o[d], inv)
			}
			lse = FMA(Log(l), Log2E, m)
		} else {
			clear(o)
		}
		Store(a.O.Span, a.O.At(b, i, h), o)
		if !a.LSE.Empty() {
			a.LSE.F32()[u] = lse
		}
	}
}

// QueryGroup is the number of queries that skip hidden blocks together.
const QueryGroup = 32

// unit is the batch, head and query of unit u.
func unit(a *kernels.Attention, u int) (b, h, i int) {
	return u / (a.Q.H * a.Q.S), u / a.Q.S % a.Q.H, u % a.Q.S
}

func checkAttention(a *kernels.Attention) {
	q, k, v, o := a.Q, a.K, a.V, a.O
	if k.B != q.B || v.B != q.B || v.S != k.S || k.D != q.D || v.H != k.H || k.H == 0 || q.H%k.H != 0 ||
		o.B != q.B || o.S != q.S || o.H != q.H || o.D != v.D || len(a.KeyLens) != 0 && len(a.KeyLens) != q.B {
		panic(fmt.Sprintf("kernels: Attention of Q [%d,%d,%d,%d], K [%d,%d,%d,%d], V [%d,%d,%d,%d] into [%d,%d,%d,%d], %d lengths",
			q.B, q.S, q.H, q.D, k.B, k.S, k.H, k.D, v.B, v.S, v.H, v.D, o.B, o.S, o.H, o.D, len(a.KeyLens)))
	}
}

// Keys is the number of keys of sequence b.
func Keys(a *kernels.Attention, b int) int {
	if len(a.KeyLens) == 0 {
		return a.K.S
	}
	return max(0, min(int(a.KeyLens[b]), a.K.S))
}

// Seen is the number of keys that query i of sequence b sees: always the first ones.
func Seen(a *kernels.Attention, b, i int) int {
	n := Keys(a, b)
	if a.Causal {
		n = max(0, min(n, i+1+a.K.S-a.Q.S))
	}
	return n
}

// Reach is the number of keys whose blocks query i's group takes part in.
func Reach(a *kernels.Attention, b, i int) int {
	return Seen(a, b, min(i/QueryGroup*QueryGroup+QueryGroup, a.Q.S)-1)
}

// keysAndValues are a sequence's keys as lines over d, and its values as lines over
// keys, zero-padded to a whole number of 32.
type keysAndValues struct {
	b, h   int
	keys   []line
	values []line
}

func loadKeysAndValues(a *kernels.Attention, b, h int) *keysAndValues {
	n, group := Keys(a, b), a.Q.H/a.K.H
	kv := &keysAndValues{b: b, h: h, keys: headLines(a.Math, a.K, b, h/group, n), values: make([]line, a.V.D)}
	padded := (n + 31) / 32 * 32
	columns := make([]float32, a.V.D*padded)
	for j, row := range headLines(a.Math, a.V, b, h/group, n) {
		for d, x := range row.x {
			columns[d*padded+j] = x
		}
	}
	for d := range kv.values {
		kv.values[d] = newLine(columns[d*padded : (d+1)*padded])
	}
	return kv
}

// headLines are the first n rows of one head, rounded for the arithmetic.
func headLines(m kernels.Math, x kernels.Heads, b, h, n int) []line {
	out, all := make([]line, n), make([]float32, n*x.D)
	for s := range out {
		row := all[s*x.D : (s+1)*x.D]
		Load(row, x.Span, x.At(b, s, h))
		if m == kernels.MathBF16 {
			roundAll(row)
		}
		out[s] = newLine(row)
	}
	return out
}

// attend is the unnormalised output of one query, its maximum and its sum.
func attend(a *kernels.Attention, kv *keysAndValues, b, h, i int) (o []float32, m, l float32) {
	q := make([]float32, a.Q.D)
	Load(q, a.Q.Span, a.Q.At(b, i, h))
	if a.Math == kernels.MathBF16 {
		roundAll(q)
	}
	s := newScores(a, b, h, i)
	o, m = make([]float32, a.V.D), float32(math.Inf(-1))
	product, query := productOf(a.Math), newLine(q)
	for k0 := 0; k0 < Reach(a, b, i); k0 += kernels.KeyBlock {
		n := min(kernels.KeyBlock, len(kv.keys)-k0)
		z := make([]float32, (n+31)/32*32)
		dots(a.Math, z[:n], query, kv.keys[k0:k0+n])
		most := s.shift(z[:n], k0)
		if next := Max(most, m); next != m {
			r := s.exp2(Sub(m, next))
			m, l = next, Mul(l, r)
			for d := range o {
				o[d] = Mul(o[d], r)
			}
		}
		for j := range z[:n] {
			z[j] = s.weight(z[j], k0+j, m)
			l = Add(l, z[j])
		}
		if a.Math == kernels.MathBF16 {
			roundAll(z)
		}
		if a.Math == kernels.MathF32 {
			z = z[:n]
		}
		p := newLine(z)
		for d := 0; d < len(o); d += 4 {
			var sum [4]float32
			some := kv.values[d:min(d+4, len(o))]
			copy(sum[:], o[d:])
			product(&sum, p, some, k0, len(z))
			copy(o[d:], sum[:len(some)])
		}
	}
	return o, m, l
}

// dots are the products of one line with some others.
func dots(m kernels.Math, dst []float32, x line, with []line) {
	product := productOf(m)
	for j := 0; j < len(dst); j += 4 {
		var sum [4]float32
		some := with[j:min(j+4, len(dst))]
		product(&sum, x, some, 0, len(x.x))
		copy(dst[j:], sum[:len(some)])
	}
}

// scores turns products into weights, for one query.
type scores struct {
	c    float32 // Scale·log2 e
	seen int
	bias []float32 // by key, times log2 e; nil without a bias
	exp2 func(float32) float32
}

func newScores(a *kernels.Attention, b, h, i int) scores {
	s := scores{c: Mul(a.Scale, Log2E), seen: Seen(a, b, i), exp2: Exp2}
	if a.Math == kernels.MathBF16 {
		s.exp2 = Exp2Short
	}
	if !a.Bias.Empty() {
		s.bias = make([]float32, Keys(a, b))
		Load(s.bias, a.Bias.Span, b*a.Bias.SB+h*a.Bias.SH+i*a.Bias.SQ)
		for j, x := range s.bias {
			s.bias[j] = Mul(x, Log2E)
		}
	}
	return s
}

// shift adds the bias, if there is one, to the products of keys k0 and on, and
// returns the largest exponent of a key that is seen.
func (s scores) shift(z []float32, k0 int) float32 {
	if s.bias != nil {
		for j, x := range z {
			z[j] = FMA(x, s.c, s.bias[k0+j])
		}
	}
	most := largest(z[:max(0, min(len(z), s.seen-k0))])
	if s.bias == nil {
		most = Mul(most, s.c)
	}
	return most
}

// weight is the unnormalised probability of key j.
func (s scores) weight(z float32, j int, m float32) float32 {
	if j >= s.seen {
		return 0
	}
	if math.IsInf(float64(m), -1) {
		m = 0
	}
	if s.bias != nil {
		return s.exp2(Sub(z, m))
	}
	return s.exp2(FMA(z, s.c, -m))
}

// Attention computes every query.
func (Backend) Attention(a *kernels.Attention) { Attention(a, 0, a.Q.B*a.Q.H*a.Q.S) }

// Rope, for tokens lo to hi-1 (of B·S): with (a, b) a pair of elements,
//
//	(fma(a, cos, -(b·sin)), fma(b, cos, a·sin));  Inverse turns by -sin
//
// Elements of an odd last place, or beyond the table's width, are copied.
func Rope(a *kernels.Rope, lo, hi int) {
	d := a.X.D
	half := a.Cos.Cols
	x, cos, sin := make([]float32, d), make([]float32, half), make([]float32, half)
	for t := lo; t < hi; t++ {
		b, s := t/a.X.S, t%a.X.S
		row := s
		if a.Cos.Rows > a.X.S {
			row = t
		}
		LoadRow(cos, a.Cos, row)
		LoadRow(sin, a.Sin, row)
		for h := range a.X.H {
			Load(x, a.X.Span, a.X.At(b, s, h))
			for i := range half {
				p, q := 2*i, 2*i+1
				if a.Kind == kernels.RopeHalves {
					p, q = i, i+half
				}
				sn := sin[i]
				if a.Inverse {
					sn = -sn
				}
				u, v := x[p], x[q]
				x[p] = FMA(u, cos[i], -Mul(v, sn))
				x[q] = FMA(v, cos[i], Mul(u, sn))
			}
			Store(a.Y.Span, a.Y.At(b, s, h), x)
		}
	}
}

// Rope turns every token.
func (Backend) Rope(a *kernels.Rope) { Rope(a, 0, a.X.B*a.X.S) }
