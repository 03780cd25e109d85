package judges

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// judgeFolder is a Qwen2.5-VL of drawn weights with the recorded tokenizer.
func judgeFolder(t *testing.T, pool *tensor.Pool) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../internal/golden/vlm/tokenizer")); err != nil {
		t.Fatal(err)
	}
	tokens, err := tokenizer.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := vlm.MarksOf(tokens)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]map[string]any{
		"config.json": {"model_type": "qwen2_5_vl", "image_token_id": marks.Picture, "video_token_id": marks.Clip, "vocab_size": tokens.Size(), "hidden_size": 16,
			"intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "rope_scaling": map[string]any{"mrope_section": []int{2, 1, 1}},
			"vision_config": map[string]any{"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 2, "out_hidden_size": 16, "fullatt_block_indexes": []int{0}}},
		"preprocessor_config.json": {"patch_size": 14, "min_pixels": 784, "max_pixels": 4000},
		"generation_config.json":   {"eos_token_id": 0},
	} {
		text, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := vlm.ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := nn.New(nn.Options{Pool: pool, Key: rng.New(2), Train: []string{".*"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	vlm.New(p, c)
	all, err := p.Stored()
	if err == nil {
		err = safetensors.Write(filepath.Join(dir, "model.safetensors"), all, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestLocalJudge: a folder tells chances, answers in words, and says why it cannot be opened.
func TestLocalJudge(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	bench := Bench{Device: func() (*features.Device, error) { return features.On(pool, features.F32), nil }}
	r := experiment.Reward{}
	r.SetDefaults()
	r.Name, r.Path = "judge", judgeFolder(t, pool)
	r.Judge = &judge.Options{}
	r.Judge.SetDefaults()
	r.Judge.Template, r.Judge.MaxTokens = "qwen2_5_vl", 3
	item := rewards.Item{Prompt: "a red circle", Image: &vision.Image{Width: 40, Height: 30, Pix: make([]uint8, 3*40*30)}}
	ask := func(form string) rewards.Result {
		r.Judge.Form = form
		o, err := Open(r, bench)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		return o.Judge(t.Context(), []rewards.Item{item, item})[1]
	}
	if got := ask("vqascore"); got.Missing != nil || !(got.Value > 0 && got.Value < 1) || got.Parts["yes"] != got.Value {
		t.Errorf("vqascore: %+v", got)
	}
	item.Sources = []*vision.Image{item.Image}
	if got := ask("edit_r1"); got.Missing != nil || !(got.Value > 0 && got.Value < 1) {
		t.Errorf("edit_r1: %+v", got)
	}
	if got := ask("flow_grpo"); got.Missing == nil || !strings.Contains(got.Missing.Error(), "does not end") {
		t.Errorf("drawn weights say nothing that ends: %+v", got)
	}
	r.Judge.Template = ""
	if _, err := Open(r, bench); err == nil || !strings.Contains(err.Error(), "chat template") {
		t.Errorf("without a template: %v", err)
	}
	if s := pool.Stats(); s.Live != 0 {
		t.Errorf("%d pieces of memory are left", s.Live)
	}
}
