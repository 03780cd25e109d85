package pipeline

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAdapterOf: either adapter of two may be absent, but a folder of the second one's name must have one: it is
// opened, which refuses it.
func TestAdapterOf(t *testing.T) {
	dir := t.TempDir()
	there := func() (has [2]bool) {
		for i, part := range []string{"transformer", "transformer_2"} {
			_, has[i] = adapterOf(dir, i, part)
		}
		return has
	}
	if has := there(); has != [2]bool{} {
		t.Errorf("an empty folder: %v", has)
	}
	file := filepath.Join(dir, "pytorch_lora_weights.safetensors")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if has := there(); has != [2]bool{true, false} {
		t.Errorf("the first network's alone: %v", has)
	}
	if _, has := adapterOf(file, 1, "transformer_2"); has {
		t.Error("a file has an adapter below it")
	}
	if err := os.Mkdir(filepath.Join(dir, "transformer_2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if has := there(); has != [2]bool{true, true} {
		t.Errorf("a folder of the second one's name: %v", has)
	}
}
