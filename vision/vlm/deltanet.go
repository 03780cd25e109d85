package vlm

import (
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
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

// deltaNet is what stands in place of attention in most layers of Qwen3.5: queries, keys and
// values go through a causal convolution of each channel alone and SiLU, then through the delta
// rule; its result is normalised head by head and gated.
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

// memory is what a row of tokens leaves behind in a layer: the convolution's last inputs, and the
// rule's state. It is as large whatever the row's length.
type memory struct{ inputs, state []float32 }

func (n *deltaNet) empty() memory {
	return memory{make([]float32, (n.taps-1)*n.channels), make([]float32, n.state())}
}

func (m memory) clone() memory { return memory{slices.Clone(m.inputs), slices.Clone(m.state)} }

// run is tokens first to first+n-1, of one row, behind what the row left; nil for nothing, and
// where nothing shall be kept.
type run struct {
	first, n int
	behind   *memory
}

// mix is what the tokens h [1, tokens, Width] become, before the last product.
func (n *deltaNet) mix(tp *autograd.Tape, h *autograd.Value, runs []run) *autograd.Value {
	x := tp.Unary(kernels.SiLU, n.convolved(tp, n.qkv.Apply(tp, h, autograd.With{}), runs))
	y := n.ruled(tp, x, n.b.Apply(tp, h, autograd.With{}), n.a.Apply(tp, h, autograd.With{}), runs)
	z := n.z.Apply(tp, h, autograd.With{})
	return tp.GLU(kernels.SiLU, n.norm.Heads(tp, y, n.valueHeads), z)
}

// convolved is y[t, c] = Σ w[c, k] x[t - taps + 1 + k, c], within a run, behind what it follows.
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
