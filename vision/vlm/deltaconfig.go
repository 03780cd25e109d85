package vlm

import (
	"slices"
	"strings"

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
