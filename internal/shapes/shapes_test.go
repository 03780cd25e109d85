package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// recorded are digests of networks whole: diffusers 0.42.1 and transformers 5.23.0 built them from the published
// settings, and each parameter is a line of its name and its shape, by name.
var recorded = map[string]string{
	"sd3-medium/transformer": "42160750d8cbba45", "sd3-medium/text_encoder": "af87ce938a7b777f", "sd3-medium/text_encoder_2": "3c51aec5558233ac",
	"sd3-medium/vae": "7aab01d8837593ec", "sd3.5-medium/transformer": "c1d6f872ea0ed896", "sd3.5-large/transformer": "d4b3abfd64caa2f5",
	"flux.1-dev/transformer": "ff9f3c45043dd851", "sd1.5/unet": "ec6957937569ba93", "sd1.5/text_encoder": "f2b74a315c21445c", "sd1.5/vae": "a1f6ef5657e1e243",
}

// digest is the record of a network in recorded.
func digest(all []safetensors.Tensor) string {
	h := sha256.New()
	for _, t := range all {
		fmt.Fprintln(h, t.Name, t.Shape)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// TestShapes: every shape's settings are read, its networks have as many parameters as were published, and names and
// shapes that diffusers and transformers give them.
func TestShapes(t *testing.T) {
	compared := 0
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
			all, n := tensors(asked, safetensors.BF16)
			if p.parameters > 0 && n != p.parameters {
				t.Errorf("%s, %s: %d parameters, and %d were published", s.name, p.folder, n, p.parameters)
			}
			if want, ok := recorded[s.name+"/"+p.folder]; ok {
				compared++
				if got := digest(all); got != want {
					t.Errorf("%s, %s: parameters of other names or shapes (digest %s, recorded %s)", s.name, p.folder, got, want)
				}
			}
		}
	}
	if compared != len(recorded) {
		t.Errorf("%d of %d records were compared", compared, len(recorded))
	}
}

// small is a shape whose networks have few parameters: the folder is the same in all else.
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
// autoencoder load.
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
		if err := opens(s, o.out, tensor.NewPool(cpu.NewDry(cpu.Options{Path: path}))); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// opens opens a folder, reads a text, and loads the networks.
func opens(s shape, dir string, pool *tensor.Pool) error {
	if s.class == "" {
		f, err := vlm.Open(dir, vlm.Options{Pool: pool, Template: "qwen2_5_vl"})
		if err != nil {
			return err
		}
		text, err := f.Tokens.Encode("a Cat, 7 é<|im_end|>")
		if n := len(text.IDs); err == nil && n != 12 {
			err = fmt.Errorf("a text of %d tokens", n)
		}
		return errors.Join(err, f.Close())
	}
	p, err := pipeline.Open(dir, pipeline.Options{Pool: pool})
	if err != nil {
		return err
	}
	if _, err = p.Encode("a Cat, 7 é"); err == nil {
		_, err = p.Denoiser()
	}
	return errors.Join(err, p.Close())
}

// TestDrawn: numbers depend on the seed alone, and not on how many cores share the work, nor where pieces end; they
// fill their range, and norms are ones.
func TestDrawn(t *testing.T) {
	shard := []safetensors.Tensor{{Name: "norm.weight", DType: safetensors.BF16, Shape: []int{7}}, {Name: "w", DType: safetensors.F32, Shape: []int{3, 16}},
		{Name: "large.weight", DType: safetensors.BF16, Shape: []int{2*pieceNumbers + 3, 1}}}
	drawn := func(seed uint64, cores int) [][]byte {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		all := [][]byte{make([]byte, 14), make([]byte, 192), make([]byte, 4*pieceNumbers+6)}
		if err := draw(shard, rng.New(seed), func(i int, at int64, data []byte) error {
			copy(all[i][at:], data)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	one, four, other := drawn(1, 1), drawn(1, 4), drawn(2, 4)
	for i := range one {
		if !bytes.Equal(one[i], four[i]) {
			t.Errorf("%s: other numbers on four cores", shard[i].Name)
		}
		if bytes.Equal(one[i], other[i]) != (i == 0) {
			t.Errorf("%s: equal numbers by two seeds, or ones that differ", shard[i].Name)
		}
	}
	w := shard[1]
	w.Data = one[1]
	x, err := w.Float32(nil)
	if err != nil {
		t.Fatal(err)
	}
	if lo, hi := slices.Min(x), slices.Max(x); lo < -0.25 || hi > 0.25 || lo > -0.2 || hi < 0.2 {
		t.Errorf("weights of 16 inputs from %v to %v", lo, hi)
	}
	if !bytes.Equal(one[0][:4], []byte{0x80, 0x3f, 0x80, 0x3f}) {
		t.Errorf("a norm of %v", one[0])
	}
}
