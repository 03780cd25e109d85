package export

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestExportPair: of adapters of two networks both are written or none is.
func TestExportPair(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	for _, at := range []string{from, filepath.Join(from, model.Second)} {
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		pair := func(rows, cols int, end string) safetensors.Tensor {
			return safetensors.FromF32("base_model.model.to_q.lora_"+end+".weight", []int{rows, cols}, make([]float32, rows*cols))
		}
		if err := safetensors.Write(filepath.Join(at, "adapter_model.safetensors"), []safetensors.Tensor{pair(1, 4, "A"), pair(4, 1, "B")}, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "adapter_config.json"), []byte(`{"peft_type": "LORA", "r": 1, "lora_alpha": 1}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string) (string, error) {
		o := &options{lora: from, as: "diffusers", out: filepath.Join(dir, name+".safetensors"), weights: "current"}
		_, err := o.write(io.Discard)
		return o.out, err
	}
	exists := func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	}
	out, err := write("both")
	if err != nil || !exists(out) || !exists(filepath.Join(dir, "both.transformer_2.safetensors")) {
		t.Fatalf("two adapters: %v", err)
	}
	wrong := filepath.Join(from, model.Second, "adapter_model.safetensors") // the second one's numbers are cut off
	text, err := os.ReadFile(wrong)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(wrong, []byte(strings.Replace(string(text), "lora_B.weight", "lora_C.weight", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err = write("none"); err == nil || exists(out) || exists(filepath.Join(dir, "none.transformer_2.safetensors")) {
		t.Errorf("one of two cannot be written (%v), and %s is there: %t", err, out, exists(out))
	}
}
