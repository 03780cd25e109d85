package peft

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// FuzzSettings takes any bytes for adapter_config.json, and for the settings in diffusers'
// file: an adapter goes on a model and is copied, or is refused; nothing panics.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{
		`{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "rank_pattern": {"to_k": 3}, "alpha_pattern": {"^blocks.0": 8.5, "to_(": 1}}`,
		`{"unet.r": 2, "unet.lora_alpha": 1e308, "unet.use_rslora": true, "unet.alpha_pattern": {}}`,
		`{"use_dora": true}`, `{"lora_alpha": "8"}`, `{"alpha_pattern": [1]}`, `{"rank_pattern": {"a": {}}}`, `[]`, ``,
	} {
		f.Add(text)
	}
	a, b := make([]float32, 12), make([]float32, 8)
	tensors := func(prefix string) []safetensors.Tensor {
		return []safetensors.Tensor{safetensors.FromF32(prefix+"blocks.0.attn.to_q.lora_A.weight", []int{2, 6}, a), safetensors.FromF32(prefix+"blocks.0.attn.to_q.lora_B.weight", []int{4, 2}, b)}
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		file := filepath.Join(dir, "one.safetensors")
		if err := safetensors.Write(filepath.Join(dir, "adapter_model.safetensors"), tensors(peftPrefix), nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		paths := []string{dir}
		if err := safetensors.Write(file, tensors("unet."), map[string]string{"lora_adapter_metadata": text}); err == nil {
			paths = append(paths, file)
		}
		for i, path := range paths {
			opened, err := Open(path, "unet")
			if err != nil {
				continue
			}
			p := model(t)
			if set, err := opened.AddTo(p); err == nil && len(set.Modules()) != 1 {
				t.Fatalf("on %v", set.Modules())
			}
			p.Free()
			if err := opened.Copy(filepath.Join(dir, "copy"+string(rune('0'+i)))); err == nil {
				again, err := Open(filepath.Join(dir, "copy"+string(rune('0'+i))), "unet")
				if err != nil {
					t.Fatalf("what was copied is refused: %v", err)
				}
				again.Close()
			}
			opened.Close()
		}
	})
}
