package vlm

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// sparse says that a layer has experts.
func (t TextConfig) sparse(layer int) bool {
	return t.Experts > 0 && !slices.Contains(t.Dense, layer) && (layer+1)%t.SparseStep == 0
}

// settleExperts takes what today's library calls otherwise, and forgets what other families say.
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
