package clip

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// copyFolder copies a recorded folder.
func copyFolder(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(recorded+"neural/"+name)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// edit changes keys of a JSON file; a key with dots lies deeper, and nil removes it.
func edit(t *testing.T, path string, changes map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	for key, v := range changes {
		at := doc
		parts := strings.Split(key, ".")
		for _, p := range parts[:len(parts)-1] {
			at = at[p].(map[string]any)
		}
		at[parts[len(parts)-1]] = v
		if v == nil {
			delete(at, parts[len(parts)-1])
		}
	}
	if raw, err = json.Marshal(doc); err == nil {
		err = os.WriteFile(path, raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rewrite changes the tensors of a file.
func rewrite(t *testing.T, path string, change func(name string, s *safetensors.Tensor) bool) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []safetensors.Tensor
	for _, name := range f.Names() {
		s, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		s.Name, s.Data = name, append([]byte(nil), s.Data...)
		if change(name, &s) {
			list = append(list, s)
		}
	}
	f.Close()
	if err := safetensors.Write(path, list, nil); err != nil {
		t.Fatal(err)
	}
}

// TestHostileFolders: a folder that is spoilt in one place is an error that names the place,
// and never a panic nor an allocation that its sizes ask for.
func TestHostileFolders(t *testing.T) {
	settings := func(file string, changes map[string]any) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, file), changes) }
	}
	hf := func(key string, v any) func(*testing.T, string) {
		return settings("config.json", map[string]any{key: v})
	}
	open := func(key string, v any) func(*testing.T, string) {
		return settings("open_clip_config.json", map[string]any{key: v})
	}
	write := func(file, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(files ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, f := range files {
				if err := os.Remove(filepath.Join(dir, f)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	drop := func(file, tensor string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			rewrite(t, filepath.Join(dir, file), func(name string, _ *safetensors.Tensor) bool { return name != tensor })
		}
	}
	bend := func(file, tensor string, shape ...int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			rewrite(t, filepath.Join(dir, file), func(name string, s *safetensors.Tensor) bool {
				if name == tensor {
					n := 1
					for _, d := range shape {
						n *= d
					}
					*s = safetensors.FromF32(name, shape, make([]float32, n))
				}
				return true
			})
		}
	}
	const hpsv2, laion, weights, openWeights = "hpsv2", "clip_laion", "model.safetensors", "open_clip_model.safetensors"
	for name, c := range map[string]struct {
		folder string
		spoil  func(*testing.T, string)
		says   string
	}{
		"nothing":    {laion, remove("config.json"), "neither config.json (transformers) nor open_clip_config.json"},
		"no weights": {laion, remove(weights, "tensors.safetensors"), "no .safetensors file"},
		"a pickle": {hpsv2, func(t *testing.T, d string) {
			remove(openWeights, "tensors.safetensors")(t, d)
			write("HPS_v2.1_compressed.pt", "x")(t, d)
		}, "convert it to safetensors"},
		"no tokenizer":             {laion, remove("tokenizer.json", "vocab.json"), "no tokenizer"},
		"missing tensor":           {laion, drop(weights, "visual_projection.weight"), "visual_projection.weight: missing"},
		"missing scale":            {laion, drop(weights, "logit_scale"), "logit_scale: missing"},
		"wrong shape":              {laion, bend(weights, "text_model.final_layer_norm.weight", 7), "text_model.final_layer_norm.weight: its shape is [7], the model's [32]"},
		"projection turned":        {hpsv2, bend(openWeights, "visual.proj", 16, 32), "visual.proj: its shape is [16 32], the model's [32 16]"},
		"stacked weight short":     {hpsv2, bend(openWeights, "visual.transformer.resblocks.1.attn.in_proj_weight", 64, 32), "visual.transformer.resblocks.1.attn.in_proj_weight: its shape is [64 32], the model's [96 32]"},
		"missing stacked bias":     {hpsv2, drop(openWeights, "transformer.resblocks.0.attn.in_proj_bias"), "transformer.resblocks.0.attn.in_proj_bias: missing"},
		"layer left over":          {laion, hf("vision_config.num_hidden_layers", 1), "vision_model.encoder.layers.1"},
		"scale that overflows":     {laion, func(t *testing.T, d string) { rewrite(t, filepath.Join(d, weights), infinite("logit_scale")) }, "logit_scale is"},
		"another architecture":     {laion, hf("architectures", []string{"SiglipModel"}), ""}, // model_type still says clip
		"unknown architecture":     {laion, settings("config.json", map[string]any{"architectures": []string{"SiglipModel"}, "model_type": "siglip"}), "it describes SiglipModel, siglip"},
		"not JSON":                 {laion, write("config.json", `{"model_type": "clip",`), "config.json:1: not JSON"},
		"text for a number":        {laion, hf("projection_dim", "many"), `"projection_dim" is string`},
		"width of none":            {laion, hf("vision_config.hidden_size", 0), `"hidden_size" is 0`},
		"absurd width":             {laion, hf("vision_config.hidden_size", 1<<40), `"hidden_size"`},
		"odd heads":                {laion, hf("vision_config.num_attention_heads", 5), "not a multiple of num_attention_heads 5"},
		"absurd layers":            {laion, hf("text_config.num_hidden_layers", 1<<30), `"num_hidden_layers"`},
		"unknown activation":       {laion, hf("vision_config.hidden_act", "swish"), `"hidden_act" is "swish"`},
		"absurd pictures":          {laion, hf("vision_config.image_size", 1<<20), `"image_size"`},
		"large pictures":           {laion, settings("config.json", map[string]any{"vision_config.image_size": 8000}), "at most 2048 x 2048"},
		"four channels":            {laion, hf("vision_config.num_channels", 4), "a tower of 4 channels"},
		"no patch":                 {laion, hf("vision_config.patch_size", 0), `"patch_size" is 0`},
		"another tokenizer":        {laion, hf("text_config.vocab_size", 100), "it belongs to another network"},
		"another end":              {laion, hf("text_config.eos_token_id", 17), "does not end texts with token 17"},
		"processor's size":         {laion, settings("preprocessor_config.json", map[string]any{"size": map[string]int{"shortest_edge": 40}, "crop_size": 40}), "makes pictures of 40 x 40, the tower reads 32 x 32"},
		"processor's deviation":    {laion, settings("preprocessor_config.json", map[string]any{"image_std": []float64{1, 0, 1}}), "it must be above 0"},
		"processor without resize": {laion, settings("preprocessor_config.json", map[string]any{"do_resize": false}), "do_resize"},
		"open: no model":           {hpsv2, write("open_clip_config.json", `{"preprocess_cfg":{}}`), "it has no model_cfg"},
		"open: timm":               {hpsv2, open("model_cfg.vision_cfg.timm_model_name", "eva"), `"timm_model_name" is a setting of networks that are not known`},
		"open: residual":           {hpsv2, open("model_cfg.vision_cfg.layers", []int{3, 4, 6, 3}), `"layers" is array`},
		"open: pooling":            {hpsv2, open("model_cfg.vision_cfg.pool_type", "avg"), `"pool_type" is avg`},
		"open: no ratio":           {hpsv2, open("model_cfg.vision_cfg.mlp_ratio", -1), `"mlp_ratio" is -1`},
		"open: no heads":           {hpsv2, open("model_cfg.vision_cfg.head_width", 0), `"head_width" is 0`},
		"open: wide heads":         {hpsv2, open("model_cfg.vision_cfg.head_width", 1000), `"num_attention_heads" is 0`},
		"open: absurd width":       {hpsv2, open("model_cfg.text_cfg.width", 1<<40), `"width"`},
		"open: deviation":          {hpsv2, open("preprocess_cfg.std", []float64{1, -1, 1}), "std above 0"},
		"open: fitting":            {hpsv2, open("preprocess_cfg.resize_mode", "longest"), `resize_mode "longest" is not known`},
		"open: filter":             {hpsv2, open("preprocess_cfg.interpolation", "random"), `filter "random" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyFolder(t, c.folder)
			c.spoil(t, dir)
			err := opened(t, dir)
			switch {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v; %q was expected", err, c.says)
			}
		})
	}
}

// infinite makes a tensor's numbers so.
func infinite(tensor string) func(string, *safetensors.Tensor) bool {
	return func(name string, s *safetensors.Tensor) bool {
		if name == tensor {
			for i := 0; i < len(s.Data); i += 4 {
				copy(s.Data[i:], []byte{0, 0, 0x80, 0x7f})
			}
		}
		return true
	}
}

func opened(t *testing.T, dir string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	m, err := Open(dir, Options{Device: device(t, features.F32)})
	if err == nil {
		m.Close()
	}
	return err
}
