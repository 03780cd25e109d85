package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// TestBeginsWithAdapter: a run that begins with another run's adapter has its numbers in its first checkpoint, whatever
// [model.lora] says, in a layout that reads the same; and a run that stopped goes on with the same bytes.
func TestBeginsWithAdapter(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	at := t.TempDir()
	first := filepath.Join(at, "first")
	if _, err := train(t, parse(t, "run.iterations=1", "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1"), first, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	begin := func(name, adapter string, resume bool, stop int) map[string][]byte {
		dir := filepath.Join(at, name)
		e := parse(t, "run.iterations=2", "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "model.lora.rank=7", "model.lora.alpha=1", fmt.Sprintf("model.adapter=%q", adapter))
		if _, err := train(t, e, dir, resume, 2, stop); err != nil {
			t.Fatal(err)
		}
		return contents(t, dir)
	}
	whole := begin("second", first, false, -1)
	begin("halved", first, false, 1)
	same(t, "stopped and gone on with", whole, begin("halved", first, true, -1))
	for _, name := range []string{"adapter_model.safetensors", "adapter_config.json"} {
		a, err := os.ReadFile(filepath.Join(first, "checkpoints", "000001", name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(at, "second", "checkpoints", "000000", name))
		if err != nil {
			b, err = os.ReadFile(filepath.Join(at, "second", "checkpoints", "000001", name)) // the start may be deleted
		}
		if err != nil || name == "adapter_config.json" && !bytes.Equal(a, b) {
			t.Errorf("%s:\n%s\nnot\n%s (%v)", name, b, a, err)
		}
	}
	began, err := safetensors.Open(filepath.Join(first, "checkpoints", "000001", "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer began.Close()
	moved, err := safetensors.Open(filepath.Join(at, "second", "checkpoints", "000001", "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Close()
	for _, name := range began.Names() {
		x, _ := began.Tensor(name)
		y, err := moved.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := x.Float32(nil)
		b, _ := y.Float32(nil)
		for i := range a {
			if d := float64(a[i] - b[i]); d > 0.011 || d < -0.011 { // AdamW's first step is the rate, 0.01, at most
				t.Fatalf("%s began at %v, and the adapter had %v", name, b[i], a[i])
			}
		}
	}
}
