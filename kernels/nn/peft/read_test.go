package peft

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// TestRename: a layer under another name keeps its numbers, and the scale that a pattern gives it.
func TestRename(t *testing.T) {
	dir := t.TempDir()
	var tensors []safetensors.Tensor
	for _, layer := range []string{"model.layers.0.q", "model.layers.1.q"} {
		tensors = append(tensors, safetensors.FromF32("base_model.model."+layer+".lora_A.weight", []int{1, 2}, []float32{1, 2}),
			safetensors.FromF32("base_model.model."+layer+".lora_B.weight", []int{2, 1}, []float32{3, 4}))
	}
	if err := write(dir, tensors, []string{"q"}, Settings{Rank: 1, Alpha: 2, AlphaPattern: Patterns{{Name: `model\.layers\.1\.q`, Value: 6}}}); err != nil {
		t.Fatal(err)
	}
	a, err := Open(dir, "model")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.Rename(func(layer string) string { return strings.Replace(layer, "model.layers", "model.deep.layers", 1) })
	if got := a.Modules(); !slices.Equal(got, []string{"model.deep.layers.0.q", "model.deep.layers.1.q"}) {
		t.Fatalf("layers are %q", got)
	}
	out := filepath.Join(dir, "out")
	if err := a.Copy(out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "adapter_config.json"))
	if err != nil || !strings.Contains(string(text), `"model.deep.layers.1.q": 6`) {
		t.Errorf("the pattern is lost: %s, %v", text, err)
	}
	b, err := Open(out, "model")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for module, alpha := range map[string]float64{"model.deep.layers.0.q": 2, "model.deep.layers.1.q": 6} {
		if k, err := b.kindOf(module); err != nil || k.alpha != alpha {
			t.Errorf("%s: alpha %v, not %v, %v", module, k.alpha, alpha, err)
		}
	}
}
