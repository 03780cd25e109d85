package vlm

import "fmt"

// A Family is one of the published architectures.
type Family int

const (
	FamilyQwen2VL Family = iota
	FamilyQwen25VL
	FamilyQwen3VL
	FamilyQwen35
	FamilyQwen3VLMoE
)

// families are the names of config.json: of the class, and of model_type.
var families = [...]struct{ class, kind string }{
	FamilyQwen2VL:    {"Qwen2VLForConditionalGeneration", "qwen2_vl"},
	FamilyQwen25VL:   {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl"},
	FamilyQwen3VL:    {"Qwen3VLForConditionalGeneration", "qwen3_vl"},
	FamilyQwen35:     {"Qwen3_5ForConditionalGeneration", "qwen3_5"},
	FamilyQwen3VLMoE: {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe"},
}

func (f Family) String() string {
	if f < 0 || int(f) >= len(families) {
		return fmt.Sprintf("family %d", int(f))
	}
	return families[f].kind
}

// third says that a family has Qwen3's language model and tower.
func (f Family) third() bool { return f.deep() || f == FamilyQwen35 }

// deep says that states of lower layers of the tower are added, too.
func (f Family) deep() bool { return f == FamilyQwen3VL || f == FamilyQwen3VLMoE }

// familyOf finds the family that a config.json names.
func familyOf(kind string, classes []string) (Family, bool) {
	for f, n := range families {
		if kind == n.kind {
			return Family(f), true
		}
	}
	for _, c := range classes {
		for f, n := range families {
			if c == n.class {
				return Family(f), true
			}
		}
	}
	return 0, false
}

// defaults are what the reference takes for settings that a file leaves out.
func (f Family) defaults() Config {
	c := Config{Family: f, Picture: 151655, Clip: 151656, Begin: 151652, End: 151653}
	c.Text = TextConfig{Eps: 1e-6, Act: "silu", Theta: 1e6}
	c.Vision = TowerConfig{Patch: 14, Merge: 2, Frames: 2, Channels: 3, Heads: 16}
	v := &c.Vision
	switch f {
	case FamilyQwen2VL:
		v.Layers, v.Act, v.Embed, v.Ratio = 32, "quick_gelu", 1280, 4
	case FamilyQwen25VL:
		v.Layers, v.Act, v.Inner, v.Window, v.PerSecond = 32, "silu", 3420, 112, 4
		v.Whole = []int{7, 15, 23, 31}
	case FamilyQwen35:
		c.Picture, c.Clip, c.Begin, c.End = 248056, 248057, 248053, 248054
		c.Text.Theta, c.Text.HeadDim, c.Text.Turning = 1e4, 256, 0.25
		c.Text.Taps, c.Text.KeyDim, c.Text.ValueDim, c.Text.KeyHeads, c.Text.ValueHeads = 4, 128, 128, 16, 32
		v.Layers, v.Act, v.Inner, v.Patch, v.Side = 27, "gelu_pytorch_tanh", 4304, 16, 2304
	case FamilyQwen3VL, FamilyQwen3VLMoE:
		c.Text.Experts, c.Text.Chosen, c.Text.ExpertInner, c.Text.SparseStep = 60, 4, 1408, 1
		c.Text.Theta = 5e5
		v.Layers, v.Act, v.Inner, v.Patch, v.Side = 27, "gelu_pytorch_tanh", 4304, 16, 2304
		v.Deep = []int{8, 16, 24}
	}
	return c
}
