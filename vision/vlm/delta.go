package vlm

import (
	"math"
	"sync"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: the gated delta rule, token by token, for each head of values with a state S [key, value]
// (Yang et al., "Gated Delta Networks", arXiv 2412.06464; Qwen3.5 in transformers 5.23):
//
//	α = exp(-exp(A) softplus(a + bias))   β = sigmoid(b)   q, k of length 1, q over √key
//	S ← α S     d = β (v - Sᵀ k)     S ← S + k dᵀ     o = Sᵀ q
//
// Upstream reads 64 tokens at once in another order of sums; here a token is a token, so that
// decoding has the bits of reading, however a row is cut into stretches. Heads of values are
// grouped by heads of keys. Every sum has one order, products are rounded by themselves, and the
// state is fp32. The backward runs the rule again from states that were kept every stride tokens.
//
// The invariants (tests): a stretch in parts has the bits of the whole; gradients are those of
// finite differences.

// deltaRule is the sizes of a layer's heads.
type deltaRule struct {
	keyHeads, valueHeads int
	key, value           int
}

// stride is how many tokens lie between states that the backward keeps.
const stride = 64

// lengthEps is what is added to a squared length.
const lengthEps = 1e-6

func (r deltaRule) qkv() int   { return 2*r.keyHeads*r.key + r.valueHeads*r.value }
func (r deltaRule) state() int { return r.valueHeads * r.key * r.value }

// deltaInput is what the rule reads of n tokens: queries, keys and values side by side, and two
// numbers a head of values.
type deltaInput struct{ qkv, b, a []float32 }

// part is what is read of tokens first to first+n-1.
func (r deltaRule) part(in deltaInput, first, n int) deltaInput {
	h, w := r.valueHeads, r.qkv()
	return deltaInput{in.qkv[first*w : (first+n)*w], in.b[first*h : (first+n)*h], in.a[first*h : (first+n)*h]}
}

// deltaWeights are a number a head: the logarithm of a decay, and what is added to a.
type deltaWeights struct{ decay, bias []float32 }

// gates are α and β of a token and head, and what their gradients need.
type gates struct{ alpha, beta, softplus, rate, slope float32 }

func (w deltaWeights) gates(head int, a, b float32) gates {
	x := float64(a) + float64(w.bias[head])
	rate, soft := portable.Exp(float64(w.decay[head])), x
	if x < 30 {
		soft = portable.Log1p(portable.Exp(x))
	}
	return gates{alpha: float32(portable.Exp(-float64(rate * soft))), beta: float32(1 / (1 + portable.Exp(-float64(b)))),
		softplus: float32(soft), rate: float32(rate), slope: float32(1 / (1 + portable.Exp(-x)))}
}

// unit is x over its length, times scale; inverse is 1 over the length.
func unit(to, x []float32, scale float32) (inverse float32) {
	var sum float32
	for _, v := range x {
		sum += float32(v * v)
	}
	inverse = float32(1 / math.Sqrt(float64(sum+lengthEps)))
	for i, v := range x {
		to[i] = float32(float32(v*inverse) * scale)
	}
	return inverse
}

// head is one head of values at work on a stretch.
type head struct {
	deltaRule
	in      deltaInput
	w       deltaWeights
	number  int
	q, k    []float32
	m       []float32 // what the state says of k
	d       []float32
	qi, ki  float32 // 1 over the lengths of q and k
	ofValue []float32
	gates
}

func (r deltaRule) head(in deltaInput, w deltaWeights, number int) *head {
	return &head{deltaRule: r, in: in, w: w, number: number, q: make([]float32, r.key), k: make([]float32, r.key),
		m: make([]float32, r.value), d: make([]float32, r.value)}
}

// places are where a token's query, key and value of the head begin.
func (h *head) places(t int) (q, k, v int) {
	r, at := h.deltaRule, t*h.qkv()
	keys := h.number / (r.valueHeads / r.keyHeads) * r.key
	return at + keys, at + r.keyHeads*r.key + keys, at + 2*r.keyHeads*r.key + h.number*r.value
}

// step takes token t into state s, and sets what came up on the way.
func (h *head) step(s []float32, t int) {
	dk, dv := h.key, h.value
	q, k, v := h.places(t)
	h.qi = unit(h.q, h.in.qkv[q:q+dk], float32(1/math.Sqrt(float64(dk))))
	h.ki = unit(h.k, h.in.qkv[k:k+dk], 1)
	h.ofValue = h.in.qkv[v : v+dv]
	at := t*h.valueHeads + h.number
	h.gates = h.w.gates(h.number, h.in.a[at], h.in.b[at])
	clear(h.m)
	for i, x := range h.k {
		row := s[i*dv:][:dv]
		for j, y := range row {
			y *= h.alpha
			row[j] = y
			h.m[j] += float32(x * y)
		}
	}
	for j, x := range h.ofValue {
		h.d[j] = float32((x - h.m[j]) * h.beta)
	}
	for i, x := range h.k {
		row := s[i*dv:][:dv]
		for j, y := range h.d {
			row[j] += float32(x * y)
		}
	}
}

// forward reads tokens behind state, which it moves on, and writes the head's numbers of each.
func (h *head) forward(state, out []float32) {
	dv := h.value
	for t := range len(h.in.b) / h.valueHeads {
		h.step(state, t)
		o := out[(t*h.valueHeads+h.number)*dv:][:dv]
		clear(o)
		for i, x := range h.q {
			for j, y := range state[i*dv:][:dv] {
				o[j] += float32(x * y)
			}
		}
	}
}

// forward is the rule for all heads of a stretch behind states.
func (r deltaRule) forward(in deltaInput, w deltaWeights, state, out []float32) {
	n := r.key * r.value
	side(r.valueHeads, func(i int) { r.head(in, w, i).forward(state[i*n:(i+1)*n], out) })
}

// side runs f for 0 to n-1 side by side.
func side(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
