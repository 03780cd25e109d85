package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
)

// families are config.json of tiny models of today's families, with the tokens of embed:tiny-vlm. VISION is the tower.
var families = map[string]string{
	"qwen3_5": `{"model_type": "qwen3_5", TOKENS, "tie_word_embeddings": false, "text_config": {"model_type": "qwen3_5_text", "vocab_size": 603, "hidden_size": 32,
		"intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "rms_norm_eps": 1e-6,
		"layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"], "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8,
		"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 12, "max_position_embeddings": 1024, "tie_word_embeddings": false,
		"rope_parameters": {"mrope_interleaved": true, "mrope_section": [4, 2, 2], "partial_rotary_factor": 0.5, "rope_theta": 1000.0, "rope_type": "default"}}, VISION}`,
	"qwen3_vl_moe": `{"model_type": "qwen3_vl_moe", TOKENS, "tie_word_embeddings": true, "text_config": {"model_type": "qwen3_vl_moe_text", "vocab_size": 603, "hidden_size": 32,
		"intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-6,
		"decoder_sparse_step": 1, "mlp_only_layers": [1], "moe_intermediate_size": 12, "num_experts_per_tok": 2, "num_local_experts": 6, "num_experts": 6,
		"max_position_embeddings": 1024, "tie_word_embeddings": true,
		"rope_parameters": {"mrope_interleaved": true, "mrope_section": [4, 2, 2], "rope_theta": 1000.0, "rope_type": "default"}}, VISION}`,
}

// familyFolder is a folder of drawn weights.
func familyFolder(t *testing.T, name string) string {
	t.Helper()
	from, err := assets.Resolve("embed:tiny-vlm")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tower := `"model_type": "NAME", "depth": 2, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 16, "in_channels": 3, "intermediate_size": 32, "num_heads": 2,
		"num_position_embeddings": 36, "out_hidden_size": 32, "patch_size": 8, "spatial_merge_size": 2, "temporal_patch_size": 2`
	if name == "qwen3_vl_moe" {
		tower += `, "deepstack_visual_indexes": [0, 1]`
	}
	config := strings.NewReplacer("TOKENS", `"image_token_id": 593, "video_token_id": 594, "vision_start_token_id": 591, "vision_end_token_id": 592`,
		"VISION", `"vision_config": {`+strings.Replace(tower, "NAME", name+"_vision", 1)+`}`).Replace(families[name])
	write := func(file string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", []byte(config))
	for _, file := range []string{"tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "chat_template.jinja"} {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			t.Fatal(err)
		}
		write(file, text)
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	key := rng.New(3)
	s, err := chat.Open(dir, chat.Options{Pool: tensor.NewPool(be), Train: []string{".*"}, Draw: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := s.Params.Stored()
	if err == nil {
		err = safetensors.Write(filepath.Join(dir, "model.safetensors"), all, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFamilies: the example zoom on a tiny folder of each of today's families: episodes are rolled, the first ratio is
// exactly 1 however rows stood together, and the weights move.
func TestFamilies(t *testing.T) {
	if testing.Short() {
		t.Skip("plays episodes with two small models: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	text, err := assets.Config("zoom")
	if err != nil {
		t.Fatal(err)
	}
	for name := range families {
		dir := filepath.Join(t.TempDir(), "run")
		// Drawn weights answer nothing, so every group is dead: no filter, and the entropy moves the weights. Their
		// distributions are narrow, too: a high temperature lets episodes differ.
		sets := []string{"preset=drgrpo", "episode.system=''", "episode.sampling.temperature=30", "model.path=" + familyFolder(t, name), "run.iterations=2", "rollout.prompts_per_iteration=2", "rollout.group=4", "episode.turn_tokens=8",
			"evaluate.every=0", "evaluate.prompts=''", "advantage.all_dead=train", "loss.entropy_weight=0.01"}
		if r, err := train(t, parseText(t, string(text), sets...), dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		for _, l := range ledgerOf(t, dir) {
			if l.Samples != 8 || len(l.Updates) != 1 || l.Updates[0].RatioMost != 1 || l.Updates[0].Gradient == 0 || l.Episodes["tokens"] == 0 {
				t.Errorf("%s: %+v, passed %q", name, l, l.Passed)
			}
		}
	}
}
