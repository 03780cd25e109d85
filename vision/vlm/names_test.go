package vlm

import "testing"

// TestNames: either name becomes the one that is asked for, and others stay.
func TestNames(t *testing.T) {
	for _, pair := range [][2]string{
		{"model.layers.3.self_attn.q_proj", "model.language_model.layers.3.self_attn.q_proj"},
		{"model.layers.3.mlp.up_proj.weight", "model.language_model.layers.3.mlp.up_proj.weight"},
		{"visual.blocks.0.attn.qkv", "model.visual.blocks.0.attn.qkv"},
		{"model.norm.weight", "model.language_model.norm.weight"},
		{"model.embed_tokens", "model.language_model.embed_tokens"},
		{"lm_head", "lm_head"},
	} {
		for _, name := range pair {
			if got := Transformers4.Of(name); got != pair[0] {
				t.Errorf("%s of old: %s", name, got)
			}
			if got := Transformers5.Of(name); got != pair[1] {
				t.Errorf("%s of today: %s", name, got)
			}
		}
	}
	if NamesOf([]string{"lm_head.weight", "model.language_model.norm.weight"}) != Transformers5 || NamesOf([]string{"model.norm.weight"}) != Transformers4 {
		t.Error("a folder's names are not recognised")
	}
}
