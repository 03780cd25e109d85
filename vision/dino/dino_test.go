package dino

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
)

var recorded = golden.Folder("rewards") + "/neural/"

func device(t *testing.T) *features.Device {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	return features.On(tensor.NewPool(be), features.F32)
}

// TestBatch: its batch does not change a bit of a vector.
func TestBatch(t *testing.T) {
	for _, dir := range []string{"dino_vit", "dinov2"} {
		var pictures []*vision.Image
		for i := range 4 {
			m, err := vision.Open(fmt.Sprintf("%s%s/image_%d.png", recorded, dir, i), vision.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			pictures = append(pictures, m)
		}
		var first [][]float64
		for _, batch := range []int{4, 1, 3} {
			m, err := Open(recorded+dir, Options{Device: device(t), Batch: batch})
			if err != nil {
				t.Fatal(err)
			}
			x, err := m.Images(context.Background(), pictures)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = x
			}
			if !reflect.DeepEqual(x, first) {
				t.Errorf("%s: batches of %d differ", dir, batch)
			}
			m.Close()
		}
	}
}

// TestResized: positions keep constants, and come back the same at the same size.
func TestResized(t *testing.T) {
	const from, to, width = 3, 5, 2
	x := []float32{7, 8}
	for range from * from {
		x = append(x, 0.25, -1.5)
	}
	out, err := resized(x, from, to, width, false)
	if err != nil || len(out) != (1+to*to)*width || out[0] != 7 || out[1] != 8 {
		t.Fatal(out, err)
	}
	for i, v := range out[width:] {
		if want := []float64{0.25, -1.5}[i%2]; math.Abs(float64(v)-want) > 1e-6 {
			t.Errorf("position %d is %v, want %v", i, v, want)
		}
	}
	if same, err := resized(x, from, from, width, false); err != nil || !reflect.DeepEqual(same, x) {
		t.Errorf("%v, %v", same, err)
	}
}

// TestHostileFolders: a folder that is spoilt in one place is an error that names the place.
func TestHostileFolders(t *testing.T) {
	set := func(key string, v any) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, "config.json")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var doc map[string]any
			if err := json.Unmarshal(raw, &doc); err != nil {
				t.Fatal(err)
			}
			doc[key] = v
			if raw, err = json.Marshal(doc); err == nil {
				err = os.WriteFile(path, raw, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	processor := func(text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	tensors := func(change func(s *safetensors.Tensor) bool) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, "model.safetensors")
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
				if change(&s) {
					list = append(list, s)
				}
			}
			f.Close()
			if err := safetensors.Write(path, list, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop := func(name string) func(*testing.T, string) {
		return tensors(func(s *safetensors.Tensor) bool { return s.Name != name })
	}
	for name, c := range map[string]struct {
		folder string
		spoil  func(*testing.T, string)
		says   string
	}{
		"as it is":          {"dino_vit", func(*testing.T, string) {}, ""},
		"another size":      {"dinov2", processor(`{"size": {"shortest_edge": 48}, "crop_size": 40, "resample": 3}`), ""},
		"below a prefix":    {"dino_vit", tensors(func(s *safetensors.Tensor) bool { s.Name = "vit." + s.Name; return true }), ""},
		"no picture's size": {"dinov2", processor(`{"size": 33}`), "must be multiples of the patch, 8"},
		"no settings":       {"dino_vit", func(t *testing.T, d string) { os.Remove(filepath.Join(d, "config.json")) }, "config.json"},
		"missing positions": {"dino_vit", drop("embeddings.position_embeddings"), "embeddings.position_embeddings: missing"},
		"missing class":     {"dinov2", drop("embeddings.cls_token"), "embeddings.cls_token: missing"},
		"missing scale":     {"dinov2", drop("encoder.layer.1.layer_scale2.lambda1"), "encoder.layer.1.layer_scale2.lambda1: missing"},
		"whole positions":   {"dinov2", tensors(wholePositions), "stored as I64"},
		"unknown architecture": {"dino_vit", func(t *testing.T, d string) {
			set("model_type", "swin")(t, d)
			set("architectures", []string{"SwinModel"})(t, d)
		}, "it describes SwinModel, swin"},
		"registers": {"dinov2", func(t *testing.T, d string) {
			set("model_type", "dinov2_with_registers")(t, d)
			set("architectures", []string{"Dinov2WithRegistersModel"})(t, d)
		}, "Dinov2Model or dinov2 was expected"},
		"more layers":       {"dino_vit", set("num_hidden_layers", 3), "encoder.layer.2.layernorm_before.weight: missing"},
		"absurd layers":     {"dino_vit", set("num_hidden_layers", 1<<40), `"num_hidden_layers"`},
		"odd heads":         {"dino_vit", set("num_attention_heads", 3), "not a multiple of num_attention_heads 3"},
		"no heads":          {"dino_vit", set("num_attention_heads", 0), `"num_attention_heads" is 0`},
		"ratio":             {"dinov2", set("mlp_ratio", 1e30), `"mlp_ratio" is 1e+30`},
		"one channel":       {"dinov2", set("num_channels", 1), "pictures have 3"},
		"activation":        {"dinov2", set("hidden_act", "relu"), `"hidden_act" is "relu"`},
		"large pictures":    {"dino_vit", set("image_size", 8192), "at most 2048 x 2048"},
		"larger pictures":   {"dino_vit", set("image_size", 16), "embeddings.position_embeddings: its shape is [1 17 32], the model's [1 5 32]"},
		"text for a number": {"dino_vit", set("patch_size", "eight"), `"patch_size" is string`},
		"gated":             {"dinov2", set("use_swiglu_ffn", true), "encoder.layer.0.mlp.weights_in.weight: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(recorded+c.folder)); err != nil {
				t.Fatal(err)
			}
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

func wholePositions(s *safetensors.Tensor) bool {
	if s.Name == "embeddings.position_embeddings" {
		s.DType, s.Data = safetensors.I64, make([]byte, 2*len(s.Data))
	}
	return true
}

// opened opens a folder and looks at a picture.
func opened(t *testing.T, dir string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	m, err := Open(dir, Options{Device: device(t)})
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = m.Images(context.Background(), []*vision.Image{vision.New(20, 30)})
	return err
}
