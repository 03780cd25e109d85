package edition

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/quant"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// added adds a number to each value of one weight, and counts what rounding loses.
type added struct {
	name          string
	by            float32
	changed, lost float64
}

func (a *added) Names() []string { return []string{a.name} }

func (a *added) Of(t safetensors.Tensor) (safetensors.Tensor, error) {
	x, err := t.Float32(nil)
	for i := range x {
		x[i] += a.by
	}
	return safetensors.FromF32(t.Name, t.Shape, x), err
}

func (a *added) Rounded(changed, lost float64) { a.changed, a.lost = a.changed+changed, a.lost+lost }

// TestCompressed: a folder whose weights are compressed is copied as a plain one, with its changes rounded once.
func TestCompressed(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	saving := quant.Bitsandbytes4("nf4", false)
	values := make([]float32, 6*10)
	for i := range values {
		values[i] = float32(i%7) - 3
	}
	data, m := saving.Save("up.weight", safetensors.BF16, []int{6, 10}, slices.Values([][]float32{values}))
	tensors := saving.Tensors("up.weight", safetensors.BF16, []int{6, 10})
	for i := range tensors {
		tensors[i].Data = data[i]
	}
	tensors = append(tensors, safetensors.FromF32("up.bias", []int{6}, values[:6]))
	config := `{"hidden_size": 10, "quantization_config": {"quant_method": "bitsandbytes"}}`
	if err := safetensors.Write(filepath.Join(from, "model.safetensors"), tensors, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	change := &added{name: "up.weight", by: 0.001}
	if err := (Copy{From: from, To: to}).Changed(".", change); err != nil {
		t.Fatal(err)
	}
	copied, err := safetensors.OpenFolder(to)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if got := strings.Join(copied.Names(), " "); got != "up.bias up.weight" {
		t.Errorf("the copy has %s", got)
	}
	w, err := copied.Tensor("up.weight")
	if err != nil || w.DType != safetensors.BF16 {
		t.Fatal(w.DType, err)
	}
	got, err := w.Float32(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Tensor().Float32(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range want {
		if v = safetensors.FromBF16(safetensors.ToBF16(v + 0.001)); got[i] != v {
			t.Fatalf("value %d is %v, want %v", i, got[i], v)
		}
	}
	if change.changed < 50*1e-6 || change.lost <= 0 || change.lost > 60*1e-4 {
		t.Errorf("a change of %g, and %g lost of it", change.changed, change.lost)
	}
	text, err := os.ReadFile(filepath.Join(to, "config.json"))
	if err != nil || strings.Contains(string(text), "quantization") || !strings.Contains(string(text), "hidden_size") {
		t.Errorf("config.json: %s %v", text, err)
	}
	change.name = "down.weight"
	if err := (Copy{From: from, To: t.TempDir()}).Changed(".", change); err == nil || !strings.Contains(err.Error(), "no such layer: down.weight") {
		t.Error(err)
	}
}
