package vlm

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/portable"
)

// Layers that attend, and layers that follow the delta rule (Qwen3.5).
const (
	attends = "full_attention"
	follows = "linear_attention"
)

// attends says that a layer looks back at tokens; others keep a state.
func (t TextConfig) attends(layer int) bool { return !t.Gated || t.Kinds[layer] == attends }

// delta is the sizes of the other layers' heads.
func (t TextConfig) delta() deltaRule {
	return deltaRule{keyHeads: t.KeyHeads, valueHeads: t.ValueHeads, key: t.KeyDim, value: t.ValueDim}
}

// turning is how many numbers of a head turn.
func (t TextConfig) turning() int {
	if !t.Gated {
		return t.HeadDim
	}
	return int(t.Turning * float64(t.HeadDim))
}

// settleDelta names every layer's kind where a file only says how far those that attend are apart.
func (t *TextConfig) settleDelta() {
	if !t.Gated {
		t.Kinds, t.Every, t.Taps, t.KeyDim, t.ValueDim, t.KeyHeads, t.ValueHeads, t.Turning = nil, 0, 0, 0, 0, 0, 0, 0
		return
	}
	every := t.Every
	if every < 1 {
		every = 4
	}
	if t.Every = 0; t.Kinds != nil {
		return
	}
	for i := range min(max(t.Layers, 0), 512) {
		kind := follows
		if (i+1)%every == 0 {
			kind = attends
		}
		t.Kinds = append(t.Kinds, kind)
	}
}

func (t TextConfig) checkDelta(l *hub.Limits) {
	if !t.Gated {
		return
	}
	l.Int("linear_conv_kernel_dim", t.Taps, 1, 64)
	l.Int("linear_key_head_dim", t.KeyDim, 1, 1024)
	l.Int("linear_value_head_dim", t.ValueDim, 1, 1024)
	l.Int("linear_num_key_heads", t.KeyHeads, 1, 512)
	l.Int("linear_num_value_heads", t.ValueHeads, 1, 512)
	l.Float("partial_rotary_factor", t.Turning, 0, 1)
	l.Must(t.KeyHeads < 1 || t.ValueHeads%t.KeyHeads == 0, `"linear_num_value_heads" %d are not a multiple of "linear_num_key_heads" %d`, t.ValueHeads, t.KeyHeads)
	l.Must(t.turning() >= 2 && t.turning()%2 == 0, `"partial_rotary_factor" %v turns %d of a head's %d numbers: an even number of at least 2 is needed`, t.Turning, t.turning(), t.HeadDim)
	l.Must(len(t.Kinds) == t.Layers, `"layer_types" names %d layers of %d`, len(t.Kinds), t.Layers)
	for i, kind := range t.Kinds {
		l.Must(slices.Contains([]string{attends, follows}, kind), `"layer_types" says %q of layer %d; %q and %q are known`, kind, i, attends, follows)
	}
}

func knownFamilies() string {
	var names []string
	for _, f := range families {
		names = append(names, f.kind)
	}
	return strings.Join(names, ", ")
}

// deltaNet takes the place of attention in most layers of Qwen3.5: queries, keys and values go through a causal
// convolution of each channel alone and SiLU, then through the delta rule; its result is normalised head by head and
// gated.
type deltaNet struct {
	deltaRule
	taps                int // of the convolution
	qkv, z, b, a, out   *nn.Linear
	conv, bias, decay   *autograd.Param
	norm                *nn.Norm
	channels, valueSize int
}

func newDeltaNet(p *nn.Params, t TextConfig) *deltaNet {
	r := t.delta()
	n := &deltaNet{deltaRule: r, taps: t.Taps, channels: r.qkv(), valueSize: r.valueHeads * r.value}
	n.qkv, n.z = p.Linear("in_proj_qkv", t.Width, n.channels, false), p.Linear("in_proj_z", t.Width, n.valueSize, false)
	n.b, n.a = p.Linear("in_proj_b", t.Width, r.valueHeads, false), p.Linear("in_proj_a", t.Width, r.valueHeads, false)
	n.conv, n.bias, n.decay = p.Vector("conv1d.weight", n.channels, 1, t.Taps), p.Vector("dt_bias", r.valueHeads), p.Vector("A_log", r.valueHeads)
	n.norm, n.out = p.RMSNorm("norm", r.value, t.Eps), p.Linear("out_proj", n.valueSize, t.Width, false)
	return n
}

// memory is the state of a row of tokens in a layer: the convolution's last inputs, and the rule's state. It is as
// large whatever the row's length.
type memory struct{ inputs, state []float32 }

func (n *deltaNet) empty() memory {
	return memory{make([]float32, (n.taps-1)*n.channels), make([]float32, n.state())}
}

func (m memory) clone() memory { return memory{slices.Clone(m.inputs), slices.Clone(m.state)} }

// run is tokens first to first+n-1, of one row, behind the row's state; nil for nothing, and where nothing shall be
// kept.
type run struct {
	first, n int
	behind   *memory
}

// mix is the layer's output for tokens h [1, tokens, Width], before the last product.
func (n *deltaNet) mix(tp *autograd.Tape, h *autograd.Value, runs []run) *autograd.Value {
	x := tp.Unary(kernels.SiLU, n.convolved(tp, n.qkv.Apply(tp, h, autograd.With{}), runs))
	y := n.ruled(tp, x, n.b.Apply(tp, h, autograd.With{}), n.a.Apply(tp, h, autograd.With{}), runs)
	z := n.z.Apply(tp, h, autograd.With{})
	return tp.GLU(kernels.SiLU, n.norm.Heads(tp, y, n.valueHeads), z)
}

// convolved is y[t, c] = Σ w[c, k] x[t - taps + 1 + k, c], within a run, behind earlier inputs.
func (n *deltaNet) convolved(tp *autograd.Tape, x *autograd.Value, runs []run) *autograd.Value {
	c, k := n.channels, n.taps
	return tp.Host(autograd.Host{Name: "causal convolution", In: []*autograd.Value{x}, Params: []*autograd.Param{n.conv}, Shape: x.Shape(),
		Forward: func(in, params [][]float32) []float32 {
			out := make([]float32, len(in[0]))
			side(len(runs), func(i int) {
				r := runs[i]
				before := make([]float32, (k-1)*c)
				if r.behind != nil {
					before = r.behind.inputs
				}
				all := slices.Concat(before, in[0][r.first*c:(r.first+r.n)*c])
				convolve(out[r.first*c:], all, params[0], r.n, c, k)
				if r.behind != nil {
					r.behind.inputs = all[r.n*c:]
				}
			})
			return out
		},
		Backward: func(in, params [][]float32, dy []float32, sums [][]float32) [][]float32 {
			dx := make([]float32, len(in[0]))
			for _, r := range runs {
				lo, hi := r.first*c, (r.first+r.n)*c
				convolveBack(dx[lo:hi], in[0][lo:hi], dy[lo:hi], params[0], sums[0], r.n, c, k)
			}
			return [][]float32{dx}
		}})
}

func convolve(out, x, w []float32, n, c, k int) {
	for t := range n {
		for i := range c {
			var sum float32
			for j := range k {
				sum += float32(w[i*k+j] * x[(t+j)*c+i])
			}
			out[t*c+i] = sum
		}
	}
}

// convolveBack is the gradients of one sample, whose gradient of w is one number added to sums.
func convolveBack(dx, x, dy, w, sums []float32, n, c, k int) {
	dw := make([]float32, len(w))
	for t := range n {
		for j := range k {
			from := t + j - (k - 1)
			if from < 0 {
				continue
			}
			for i := range c {
				dx[from*c+i] += float32(w[i*k+j] * dy[t*c+i])
				dw[i*k+j] += float32(x[from*c+i] * dy[t*c+i])
			}
		}
	}
	addTo(sums, dw)
}

func addTo(sums, x []float32) {
	for i := range sums {
		sums[i] += x[i]
	}
}

// ruled is the delta rule of each run.
func (n *deltaNet) ruled(tp *autograd.Tape, qkv, b, a *autograd.Value, runs []run) *autograd.Value {
	shape := []int{1, qkv.Dim(1), n.valueSize}
	return tp.Host(autograd.Host{Name: "delta rule", In: []*autograd.Value{qkv, b, a}, Params: []*autograd.Param{n.decay, n.bias}, Shape: shape,
		Forward: func(in, params [][]float32) []float32 {
			out, all := make([]float32, shape[1]*n.valueSize), deltaInput{in[0], in[1], in[2]}
			side(len(runs), func(i int) {
				r := runs[i]
				state := make([]float32, n.state())
				if r.behind != nil {
					state = r.behind.state
				}
				n.forward(n.part(all, r.first, r.n), deltaWeights{params[0], params[1]}, state, out[r.first*n.valueSize:])
			})
			return out
		},
		Backward: func(in, params [][]float32, dy []float32, sums [][]float32) [][]float32 {
			all, grads := deltaInput{in[0], in[1], in[2]}, [][]float32{make([]float32, len(in[0])), make([]float32, len(in[1])), make([]float32, len(in[2]))}
			for _, r := range runs {
				part := n.part(all, r.first, r.n)
				g := n.backward(part, deltaWeights{params[0], params[1]}, dy[r.first*n.valueSize:])
				to := n.part(deltaInput{grads[0], grads[1], grads[2]}, r.first, r.n)
				copy(to.qkv, g.qkv)
				copy(to.b, g.deltaInput.b)
				copy(to.a, g.deltaInput.a)
				addTo(sums[0], g.decay)
				addTo(sums[1], g.deltaWeights.bias)
			}
			return grads
		}})
}

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

// lengthEps is added to a squared length.
const lengthEps = 1e-6

func (r deltaRule) qkv() int   { return 2*r.keyHeads*r.key + r.valueHeads*r.value }
func (r deltaRule) state() int { return r.valueHeads * r.key * r.value }

// deltaInput is the rule's input for n tokens: queries, keys and values side by side, and two numbers a head of
// values.
type deltaInput struct{ qkv, b, a []float32 }

// part is the input of tokens first to first+n-1.
func (r deltaRule) part(in deltaInput, first, n int) deltaInput {
	h, w := r.valueHeads, r.qkv()
	return deltaInput{in.qkv[first*w : (first+n)*w], in.b[first*h : (first+n)*h], in.a[first*h : (first+n)*h]}
}

// deltaWeights are a number a head: the logarithm of a decay, and the bias of a.
type deltaWeights struct{ decay, bias []float32 }

// gates are α and β of a token and head, and the values that their gradients need.
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
	m       []float32 // the state's value for k
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

// step takes token t into state s, and sets its intermediate values.
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

// The gated delta rule backwards: with D the gradient of S after a token,
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

// again sets the intermediate values of token t; before stays as it is.
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

// gatesBack is the gradients of the inputs of α and β.
func (h *head) gatesBack(t int, dalpha, dbeta float32, g deltaGrads) {
	at := t*h.valueHeads + h.number
	dlog := float32(dalpha * h.alpha)              // of log α = -rate softplus
	dx := float32(-float32(dlog*h.rate) * h.slope) // of a + bias
	g.a[at], g.b[at] = dx, float32(dbeta*float32(h.beta*(1-h.beta)))
	g.bias[h.number] += dx
	g.decay[h.number] -= float32(dlog * float32(h.rate*h.softplus))
}
