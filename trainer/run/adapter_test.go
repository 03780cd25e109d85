package run

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	try := func(name, adapter string, resume bool, stop int) error {
		e := parse(t, "run.iterations=2", "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "model.lora.rank=7", "model.lora.alpha=1", fmt.Sprintf("model.adapter=%q", adapter))
		_, err := train(t, e, filepath.Join(at, name), resume, 2, stop)
		return err
	}
	begin := func(name, adapter string, resume bool, stop int) map[string][]byte {
		if err := try(name, adapter, resume, stop); err != nil {
			t.Fatal(err)
		}
		return contents(t, filepath.Join(at, name))
	}
	whole := begin("second", first, false, -1)
	begin("halved", first, false, 1)
	// The adapter in a folder of its own is the same one; with other numbers it is not, and the run does not go on.
	rename(t, first, first+".run")
	if err := os.CopyFS(first, os.DirFS(filepath.Join(first+".run", "checkpoints", "000001"))); err != nil {
		t.Fatal(err)
	}
	numbers := filepath.Join(first, "adapter_model.safetensors")
	text, err := os.ReadFile(numbers)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, numbers, len(text)-1)
	if err := try("halved", first, true, -1); !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), numbers+": its bytes have changed") {
		t.Errorf("with another adapter: %v", err)
	}
	flip(t, numbers, len(text)-1)
	rename(t, first, first+".numbers")
	rename(t, first+".run", first)
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
