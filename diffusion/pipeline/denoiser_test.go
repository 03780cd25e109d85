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
	parts := []string{"transformer", "transformer_2"}
	thereAt := func(path string) (has [2]bool) {
		for i := range parts {
			_, has[i] = adapterOf(path, i, parts)
		}
		return has
	}
	there := func() [2]bool { return thereAt(dir) }
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
	if has := thereAt(file); has != [2]bool{true, false} {
		t.Errorf("a file: %v", has)
	}
	second := filepath.Join(dir, "pytorch_lora_weights.transformer_2.safetensors")
	if err := os.WriteFile(second, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if has := thereAt(second); has != [2]bool{false, true} {
		t.Errorf("a file that is the second one's by its name: %v", has)
	}
	if has := thereAt(file); has != [2]bool{true, true} {
		t.Errorf("a file with the second one's beside it: %v", has)
	}
	if at, has := adapterOf(second, 0, parts[:1]); !has || at != second {
		t.Error("of one network a file may be called as it likes")
	}
	if err := os.Mkdir(filepath.Join(dir, "transformer_2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if has := there(); has != [2]bool{true, true} {
		t.Errorf("a folder of the second one's name: %v", has)
	}
}
