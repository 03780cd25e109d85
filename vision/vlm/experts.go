package vlm

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/portable"
)

// sparse says that a layer has experts.
func (t TextConfig) sparse(layer int) bool {
	return t.Experts > 0 && !slices.Contains(t.Dense, layer) && (layer+1)%t.SparseStep == 0
}

// settleExperts takes settings by their names in today's library, and drops those of other families.
func (t *TextConfig) settleExperts(f Family) {
	if f != FamilyQwen3VLMoE {
		t.Experts, t.LocalExperts, t.Chosen, t.ExpertInner, t.SparseStep, t.Dense = 0, 0, 0, 0, 0, nil
		return
	}
	if t.LocalExperts > 0 {
		t.Experts, t.LocalExperts = t.LocalExperts, 0
	}
}

func (t TextConfig) checkExperts(l *hub.Limits) {
	if t.Experts == 0 && t.Chosen == 0 {
		return
	}
	l.Int("num_experts", t.Experts, 1, 4096)
	l.Int("num_experts_per_tok", t.Chosen, 1, 4096)
	l.Int("moe_intermediate_size", t.ExpertInner, 1, maxWidth)
	l.Int("decoder_sparse_step", t.SparseStep, 1, 512)
	l.Must(t.Chosen <= t.Experts, `"num_experts_per_tok" %d of %d experts`, t.Chosen, t.Experts)
}

// Card: a layer of experts (Qwen3-VL-MoE): a router's softmax over all experts, in fp32; each token
// goes through the few that are likeliest, and their results are added up by their probabilities,
// which are divided by their sum. Source: transformers 5.23, modeling_qwen3_vl_moe.
//
// The invariant: a token's numbers depend on the token alone. Its experts are added in the order of their numbers,
// whatever other tokens they get; equal probabilities choose the lower number.

// experts is one such layer.
type experts struct {
	number   int // of the layer
	router   *nn.Linear
	up, down *nn.Experts // gate and up side by side: the gate first
	chosen   int
	heard    *func(Routing)
}

// Routing is where a layer of experts sent its tokens.
type Routing struct {
	Layer   int
	Logits  []float32   // [tokens, experts]
	Chosen  [][]int     // of each token, the likeliest first
	Weights [][]float32 // of those chosen
}

func newExperts(p *nn.Params, t TextConfig, number int) *experts {
	e := &experts{number: number, chosen: t.Chosen, router: p.Linear("gate", t.Width, t.Experts, false)}
	shape := p.Shape("experts.down_proj") // [experts, in, out] in published files
	right := len(shape) == 3 && shape[1] == t.ExpertInner && (shape[2] == t.Width || t.ExpertInner != t.Width)
	if up := p.Shape("experts.gate_up_proj"); t.ExpertInner == t.Width && len(up) == 3 { // where that tells nothing
		right = up[1] == t.Width
	}
	e.up = p.Experts("experts.gate_up_proj", "experts.base_layer", t.Experts, t.Width, 2*t.ExpertInner, right)
	e.down = p.Experts("experts.down_proj", "experts", t.Experts, t.ExpertInner, t.Width, right)
	return e
}

// Apply implements feedForward.
func (e *experts) Apply(tp *autograd.Tape, x *autograd.Value, o autograd.With) *autograd.Value {
	logits := e.router.Apply(tp, x, autograd.With{Wide: true})
	r := e.route(logits.F32())
	if e.heard != nil && *e.heard != nil {
		(*e.heard)(r)
	}
	weights := e.weights(tp, logits, r)
	var rows []int32
	var from [][2]int // token and place among its chosen, of every row that is made
	counts := make([]int, len(e.up.Layers))
	for i := range counts {
		for token, chosen := range r.Chosen {
			if at := slices.Index(chosen, i); at >= 0 {
				rows, from = append(rows, int32(token)), append(from, [2]int{token, at})
				counts[i]++
			}
		}
	}
	halves := tp.Chunk(e.up.Apply(tp, tp.Gather(x, rows, 1, len(rows)), counts), 2)
	made := e.down.Apply(tp, tp.GLU(kernels.SiLU, halves[1], halves[0]), counts)
	return tp.Add(o.Residual, e.mixed(tp, made, weights, from, x.Dim(1)))
}

// route chooses the experts of every token.
func (e *experts) route(logits []float32) Routing {
	n := len(e.up.Layers)
	r := Routing{Layer: e.number, Logits: logits}
	for at := 0; at < len(logits); at += n {
		p := portable.Softmax(logits[at : at+n])
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case p[a] > p[b]:
				return -1
			case p[a] < p[b]:
				return 1
			}
			return 0
		})
		chosen := order[:e.chosen]
		r.Chosen, r.Weights = append(r.Chosen, chosen), append(r.Weights, shares(p, chosen))
	}
	return r
}

// shares are the chosen probabilities over their sum.
func shares(p []float64, chosen []int) []float32 {
	sum := 0.0
	for _, i := range chosen {
		sum += p[i]
	}
	w := make([]float32, len(chosen))
	for k, i := range chosen {
		w[k] = float32(p[i] / sum)
	}
	return w
}

// weights are those of the chosen on the tape, [1, tokens, chosen]. With w_k = e^z_k / Σ over the
// chosen, the gradient at z_k is w_k (dw_k - Σ w dw), and 0 at the others.
func (e *experts) weights(tp *autograd.Tape, logits *autograd.Value, r Routing) *autograd.Value {
	n, k := len(e.up.Layers), e.chosen
	return tp.Host(autograd.Host{Name: "routing", In: []*autograd.Value{logits}, Shape: []int{1, len(r.Chosen), k},
		Forward: func(_, _ [][]float32) []float32 { return slices.Concat(r.Weights...) },
		Backward: func(in, _ [][]float32, dy []float32, _ [][]float32) [][]float32 {
			dz := make([]float32, len(in[0]))
			for t, chosen := range r.Chosen {
				var mean float32
				for j := range chosen {
					mean += float32(r.Weights[t][j] * dy[t*k+j])
				}
				for j, i := range chosen {
					dz[t*n+i] = float32(r.Weights[t][j] * (dy[t*k+j] - mean))
				}
			}
			return [][]float32{dz}
		}})
}

// mixed adds up the experts' outputs for each token, in the order of from.
func (e *experts) mixed(tp *autograd.Tape, made, weights *autograd.Value, from [][2]int, tokens int) *autograd.Value {
	width, k := made.Dim(-1), e.chosen
	return tp.Host(autograd.Host{Name: "mixture", In: []*autograd.Value{made, weights}, Shape: []int{1, tokens, width},
		Forward: func(in, _ [][]float32) []float32 {
			out := make([]float32, tokens*width)
			for row, f := range from {
				w, y := in[1][f[0]*k+f[1]], out[f[0]*width:][:width]
				for i, x := range in[0][row*width:][:width] {
					y[i] += float32(w * x)
				}
			}
			return out
		},
		Backward: func(in, _ [][]float32, dy []float32, _ [][]float32) [][]float32 {
			dx, dw := make([]float32, len(in[0])), make([]float32, len(in[1]))
			for row, f := range from {
				at := f[0]*k + f[1]
				d := dy[f[0]*width:][:width]
				for i, x := range in[0][row*width:][:width] {
					dx[row*width+i] = float32(in[1][at] * d[i])
					dw[at] += float32(x * d[i])
				}
			}
			return [][]float32{dx, dw}
		}})
}
