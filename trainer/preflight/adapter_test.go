package preflight

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestAdapter: an adapter says its rank and layers, in either layout, and one of another model is refused with a
// layer's name.
func TestAdapter(t *testing.T) {
	p, err := pipeline.Open(recorded+"pipe_sd15", pipeline.Options{Pool: tensor.NewPool(ref.Backend{})})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	params, err := p.Denoiser()
	if err != nil {
		t.Fatal(err)
	}
	set, err := params.AddLoRA(nn.LoRA{Rank: 3, Alpha: 6, Targets: []string{"attn1.to_q", "attn1.to_out.0"}})
	if err != nil {
		t.Fatal(err)
	}
	folder, file := filepath.Join(t.TempDir(), "lora"), filepath.Join(t.TempDir(), "lora.safetensors")
	if err := peft.Write(folder, set, peft.Settings{Rank: 3, Alpha: 6}); err != nil {
		t.Fatal(err)
	}
	written, err := peft.Open(folder, "unet")
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if err := written.CopyDiffusers(file, "unet"); err != nil {
		t.Fatal(err)
	}
	ladder := "[sampler]\npreset = \"ddpo\"\n"
	for _, path := range []string{folder, file} {
		e, _, err := checked(t, recorded+"pipe_sd15", "embed:scenes", ladder, fmt.Sprintf("model.adapter=%q", path))
		if err != nil {
			t.Fatal(err)
		}
		l := e.Model.LoRA
		if slices.Sort(l.Targets); l.Rank != 3 || l.Alpha != 6 || !slices.Equal(l.Targets, []string{"attn1.to_out.0", "attn1.to_q"}) {
			t.Errorf("%s: %+v", path, l)
		}
	}
	for _, c := range []struct{ model, prompts, rest, adapter, want string }{
		{"embed:tiny-sd3", "embed:scenes", "", folder, "lora/adapter_model.safetensors: down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0: the model has no such layer"},
		{"embed:tiny-sd3", "embed:scenes", "", file, "no tensors named transformer."},
		{"embed:tiny-vlm", "embed:zoom", "[episode]\n", folder, "lora/adapter_model.safetensors: down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_out.0: the model has no such layer"},
		{"embed:tiny-sd3", "embed:scenes", "", "nowhere", "nowhere: no such file"},
	} {
		_, _, err := checked(t, c.model, c.prompts, c.rest, fmt.Sprintf("model.adapter=%q", c.adapter))
		if err == nil || !strings.HasPrefix(err.Error(), `--set: "model.adapter": `) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "hint: ") {
			t.Errorf("%s with %s: %v", c.model, c.adapter, err)
		}
	}
}
