package pull

import (
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name string
		choice
		files string
		want  string // those that are kept, or "error: " and a part of it
	}{
		{"a model of transformers", choice{}, "config.json model.safetensors pytorch_model.bin tf_model.h5 tokenizer.json merges.txt vocab.json preprocessor_config.json chat_template.jinja README.md a.png",
			"config.json model.safetensors tokenizer.json merges.txt vocab.json preprocessor_config.json chat_template.jinja"},
		{"shards", choice{}, "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json pytorch_model.bin.index.json consolidated.safetensors",
			"model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json"},
		{"the plain weights", choice{}, "unet/diffusion_pytorch_model.safetensors unet/diffusion_pytorch_model.fp16.safetensors unet/diffusion_pytorch_model.non_ema.safetensors", "unet/diffusion_pytorch_model.safetensors"},
		{"a variant", choice{variant: "fp16"}, "unet/diffusion_pytorch_model.safetensors unet/diffusion_pytorch_model.fp16.safetensors vae/diffusion_pytorch_model.safetensors", "unet/diffusion_pytorch_model.fp16.safetensors vae/diffusion_pytorch_model.safetensors"},
		{"shards of a variant", choice{variant: "fp16"}, "m/model.fp16-00001-of-00002.safetensors m/model-00001-of-00002.fp16.safetensors m/model.safetensors.index.fp16.json m/model.fp16.safetensors.index.json m/model-00001-of-00002.safetensors",
			"m/model.fp16-00001-of-00002.safetensors m/model-00001-of-00002.fp16.safetensors m/model.safetensors.index.fp16.json m/model.fp16.safetensors.index.json"},
		{"the only variant", choice{}, "unet/diffusion_pytorch_model.fp16.safetensors", "unet/diffusion_pytorch_model.fp16.safetensors"},
		{"which variant?", choice{}, "unet/diffusion_pytorch_model.fp16.safetensors unet/diffusion_pytorch_model.ema.safetensors", "error: --variant: ema, fp16"},
		{"a pipeline's folders", choice{parts: []string{"vae"}}, "model_index.json flux1-dev.safetensors vae/config.json vae/diffusion_pytorch_model.safetensors other/config.json .cache/x.json", "model_index.json vae/config.json vae/diffusion_pytorch_model.safetensors"},
		{"asked for", choice{parts: []string{"vae"}, include: []string{"*.safetensors", "other/*"}}, "vae/config.json flux1-dev.safetensors other/a.bin", "vae/config.json flux1-dev.safetensors other/a.bin"},
		{"bitsandbytes", choice{parts: []string{"transformer"}}, "model_index.json transformer/config.json transformer/diffusion_pytorch_model.safetensors", "model_index.json transformer/config.json transformer/diffusion_pytorch_model.safetensors"},
		{"one GGUF", choice{}, "README.md flux1-dev-Q4_K_S.gguf LICENSE.md", "flux1-dev-Q4_K_S.gguf LICENSE.md"},
		{"which GGUF?", choice{}, "flux1-dev-Q4_K_S.gguf flux1-dev-Q8_0.gguf", "error: it has 2 models in GGUF\nhint: choose one with --include: flux1-dev-Q4_K_S.gguf, flux1-dev-Q8_0.gguf"},
		{"this GGUF", choice{include: []string{"*Q8_0.gguf"}}, "flux1-dev-Q4_K_S.gguf flux1-dev-Q8_0.gguf", "flux1-dev-Q8_0.gguf"},
		{"GGUF beside safetensors", choice{}, "config.json model.safetensors model-q4.gguf", "config.json model.safetensors"},
		{"a state dict for want of safetensors", choice{pickle: "pytorch_model.bin"}, "config.json pytorch_model.bin flax_model.msgpack", "config.json pytorch_model.bin"},
		{"safetensors before a state dict", choice{pickle: "pytorch_model.bin"}, "config.json pytorch_model.bin model.safetensors", "config.json model.safetensors"},
		{"pickled", choice{}, "unet/config.json unet/diffusion_pytorch_model.bin", "error: its folder unet has its weights as pickled files alone"},
	} {
		var all []File
		for _, name := range strings.Fields(c.files) {
			all = append(all, File{Path: name})
		}
		got, err := c.of(all)
		if text, bad := strings.CutPrefix(c.want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, not %q", c.name, err, text)
			}
			continue
		}
		var names []string
		for _, f := range got {
			names = append(names, f.Path)
		}
		if err != nil || !slices.Equal(names, strings.Fields(c.want)) {
			t.Errorf("%s: %v, %v", c.name, names, err)
		}
	}
}
