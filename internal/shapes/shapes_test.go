package main

import (
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestShapes: every shape's settings are read, and its networks have as many parameters as were published.
func TestShapes(t *testing.T) {
	for _, s := range shapes() {
		for _, p := range s.parts {
			dir := filepath.Join(t.TempDir(), p.folder)
			if err := p.describe(dir); err != nil {
				t.Fatal(err)
			}
			asked, err := networks[p.class].asked(dir)
			if err != nil {
				t.Errorf("%s, %s: %v", s.name, p.folder, err)
				continue
			}
			if _, n := tensors(asked, safetensors.BF16); p.parameters > 0 && n != p.parameters {
				t.Errorf("%s, %s: %d parameters, and %d were published", s.name, p.folder, n, p.parameters)
			}
		}
	}
}

// small is a shape whose networks have few parameters: what is written is the same in all else.
func small(s shape) shape {
	less := map[string]settings{
		"SD3Transformer2DModel":              {"num_layers": 2, "num_attention_heads": 1, "caption_projection_dim": 64, "pos_embed_max_size": 16, "sample_size": 8, "joint_attention_dim": 64, "pooled_projection_dim": 64, "dual_attention_layers": []int{0}},
		"UNet2DConditionModel":               {"block_out_channels": []int{32, 32, 32, 32}, "cross_attention_dim": 32, "attention_head_dim": 2, "sample_size": 8},
		"WanTransformer3DModel":              {"num_layers": 1, "num_attention_heads": 1, "ffn_dim": 32, "text_dim": 64},
		"QwenImageTransformer2DModel":        {"num_layers": 1, "num_attention_heads": 1, "joint_attention_dim": 128},
		"AutoencoderKL":                      {"block_out_channels": []int{32, 32, 32, 32}, "layers_per_block": 1},
		"AutoencoderKLWan":                   {"base_dim": 8, "num_res_blocks": 1},
		"AutoencoderKLQwenImage":             {"base_dim": 8, "num_res_blocks": 1},
		"CLIPTextModel":                      {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2},
		"CLIPTextModelWithProjection":        {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "projection_dim": 32},
		"FluxTransformer2DModel":             {"num_layers": 1, "num_single_layers": 1, "num_attention_heads": 1, "joint_attention_dim": 64, "pooled_projection_dim": 32},
		"T5EncoderModel":                     {"d_model": 64, "d_ff": 64, "num_heads": 1},
		"UMT5EncoderModel":                   {"d_model": 64, "d_ff": 64, "num_heads": 1},
		"Qwen2_5_VLForConditionalGeneration": {"hidden_size": 128, "intermediate_size": 64, "num_attention_heads": 1, "num_key_value_heads": 1, "vision_config": qwenVL["vision_config"].(settings).with(settings{"hidden_size": 16, "num_heads": 1, "intermediate_size": 16, "out_hidden_size": 128})},
	}
	parts := make([]part, len(s.parts))
	for i, p := range s.parts {
		parts[i] = p
		parts[i].settings, parts[i].parameters = p.settings.with(less[p.class]), 0
	}
	s.parts = parts
	return s
}

// TestWritten: a folder that was written opens, in shards and types as asked, its tokenizers read, its denoiser and
// autoencoder load; equal seeds write equal bytes.
func TestWritten(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range shapes() {
		o := options{out: filepath.Join(t.TempDir(), "model"), seed: 1, shard: 1 << 17, dtype: []safetensors.DType{safetensors.BF16, safetensors.F32}[i%2]}
		if err := small(s).write(o, func(string, int) {}); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if set, err := safetensors.OpenFolder(filepath.Join(o.out, s.parts[0].folder)); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		} else if set.Index == "" || set.Files[0].Tensors[0].DType != o.dtype {
			t.Errorf("%s: one file, or weights of type %s", s.name, set.Files[0].Tensors[0].DType)
		} else if err := set.Close(); err != nil {
			t.Fatal(err)
		}
		p, err := pipeline.Open(o.out, pipeline.Options{Pool: tensor.NewPool(cpu.NewDry(cpu.Options{Path: path}))})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if _, err := p.Encode("a Cat, 7 é"); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if _, err := p.Denoiser(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}
