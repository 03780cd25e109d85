package vlm

import "math"

// The gated delta rule backwards (delta.go): with D the gradient of S after a token,
//
//	D += q doᵀ     dq = S do     dd = Dᵀ k     dk = D d     dv = β dd     dm = -β dd
//	D += k dmᵀ     dk += S' dm   dα = Σ D·S_before          D ← α D
//
// S' is S behind the decay, before d is added.

// deltaGrads are the gradients of a stretch's input, and of weights: of this sample.
type deltaGrads struct {
	deltaInput
	deltaWeights
}

// backward is the gradients of a stretch that began with an empty state.
func (r deltaRule) backward(in deltaInput, w deltaWeights, dy []float32) deltaGrads {
	g := deltaGrads{deltaInput{make([]float32, len(in.qkv)), make([]float32, len(in.b)), make([]float32, len(in.a))},
		deltaWeights{make([]float32, r.valueHeads), make([]float32, r.valueHeads)}}
	each := r.valueHeads / r.keyHeads
	side(r.keyHeads, func(i int) { // heads that share a key add to its gradient in their order
		for j := range each {
			r.head(in, w, i*each+j).backward(dy, g)
		}
	})
	return g
}

func (h *head) backward(dy []float32, g deltaGrads) {
	n, tokens := h.key*h.value, len(h.in.b)/h.valueHeads
	starts := [][]float32{}
	s := make([]float32, n)
	for t := range tokens {
		if t%stride == 0 {
			starts = append(starts, append([]float32(nil), s...))
		}
		h.step(s, t)
	}
	states, ds := make([]float32, (stride+1)*n), make([]float32, n) // before each token of a stride, and behind the last
	for i := len(starts) - 1; i >= 0; i-- {
		copy(states, starts[i])
		first, last := i*stride, min((i+1)*stride, tokens)
		for t := first; t < last; t++ {
			at := (t - first) * n
			copy(states[at+n:at+2*n], states[at:at+n])
			h.step(states[at+n:at+2*n], t)
		}
		for t := last - 1; t >= first; t-- {
			at := (t - first) * n
			h.back(t, states[at:at+n], states[at+n:at+2*n], ds, dy, g)
		}
	}
}

// back takes the gradient ds of the state behind token t to that before it.
func (h *head) back(t int, before, after, ds, dy []float32, g deltaGrads) {
	dk, dv := h.key, h.value
	h.again(before, t)
	do := dy[(t*h.valueHeads+h.number)*dv:][:dv]
	dq, dkey, dd := make([]float32, dk), make([]float32, dk), make([]float32, dv)
	for i, q := range h.q {
		row, s := ds[i*dv:][:dv], after[i*dv:][:dv]
		k := h.k[i]
		for j, o := range do {
			row[j] += float32(q * o)
			dq[i] += float32(s[j] * o)
			dkey[i] += float32(row[j] * h.d[j])
			dd[j] += float32(row[j] * k)
		}
	}
	q, k, v := h.places(t)
	var dbeta, dalpha float32
	dm := make([]float32, dv)
	for j, x := range dd {
		dbeta += float32(x * (h.ofValue[j] - h.m[j]))
		g.qkv[v+j] = float32(x * h.beta)
		dm[j] = -g.qkv[v+j]
	}
	for i, key := range h.k {
		row, s := ds[i*dv:][:dv], before[i*dv:][:dv]
		for j, x := range dm {
			row[j] += float32(key * x)
			dkey[i] += float32(float32(h.alpha*s[j]) * x)
			dalpha += float32(row[j] * s[j])
			row[j] *= h.alpha
		}
	}
	unitBack(g.qkv[q:q+dk], dq, h.q, h.qi, float32(1/math.Sqrt(float64(dk))))
	unitBack(g.qkv[k:k+dk], dkey, h.k, h.ki, 1)
	h.gatesBack(t, dalpha, dbeta, g)
}

// again sets what came up at token t; before stays as it is.
func (h *head) again(before []float32, t int) {
	s := append([]float32(nil), before...)
	h.step(s, t)
}

// unitBack adds the gradient of x where y = scale x / |x|: (dy - u (u·dy)) scale / |x|, u = y / scale.
func unitBack(dx, dy, y []float32, inverse, scale float32) {
	var dot float32
	for i, u := range y {
		dot += float32(float32(u/scale) * dy[i])
	}
	for i, u := range y {
		dx[i] += float32(float32(dy[i]-float32(float32(u/scale)*dot)) * float32(scale*inverse))
	}
}

// gatesBack is the gradients of what α and β are made of.
func (h *head) gatesBack(t int, dalpha, dbeta float32, g deltaGrads) {
	at := t*h.valueHeads + h.number
	dlog := float32(dalpha * h.alpha)              // of log α = -rate softplus
	dx := float32(-float32(dlog*h.rate) * h.slope) // of a + bias
	g.a[at], g.b[at] = dx, float32(dbeta*float32(h.beta*(1-h.beta)))
	g.bias[h.number] += dx
	g.decay[h.number] -= float32(dlog * float32(h.rate*h.softplus))
}
