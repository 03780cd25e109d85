package run

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestAverageIsJudged: evaluate.weights = "ema" measures the moving average and changes nothing that is learned; a
// checkpoint has the average's adapter beside the current one, whole; and a run that stopped in between goes on with
// the same bytes.
func TestAverageIsJudged(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	at := t.TempDir()
	run := func(name, weights string, resume bool, stop int) map[string][]byte {
		dir := filepath.Join(at, name)
		e := parse(t, "run.iterations=2", "evaluate.every=1", "optim.ema=0.9", "optim.updates=1", "evaluate.weights="+weights)
		if _, err := train(t, e, dir, resume, 2, stop); err != nil {
			t.Fatal(err)
		}
		return contents(t, dir)
	}
	current, average := run("current", "current", false, -1), run("average", "ema", false, -1)
	run("halved", "ema", false, 1)
	same(t, "stopped and gone on with", average, run("halved", "ema", true, -1))

	const last = "checkpoints/000002/"
	adapter := func(files map[string][]byte, below string) []byte {
		t.Helper()
		for name, text := range files {
			if strings.HasSuffix(filepath.ToSlash(name), last+below+"adapter_model.safetensors") {
				return text
			}
		}
		t.Fatalf("there is no adapter in %s%s", last, below)
		return nil
	}
	if !bytes.Equal(adapter(current, ""), adapter(average, "")) {
		t.Error("what is measured changed what is learned")
	}
	if bytes.Equal(adapter(average, ""), adapter(average, model.EMA+"/")) {
		t.Error("the average is the weights themselves")
	}
	for _, name := range []string{"heldout_before.png", "heldout_000002.png"} {
		a, err := os.ReadFile(filepath.Join(at, "current", "images", name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(at, "average", "images", name))
		if err != nil {
			t.Fatal(err)
		}
		if before := name == "heldout_before.png"; bytes.Equal(a, b) != before {
			t.Errorf("%s shows the same: %v", name, !before)
		}
	}
	sums, err := os.ReadFile(filepath.Join(at, "average", last, "SHA256SUMS"))
	if err != nil || !bytes.Contains(sums, []byte("  ema/adapter_model.safetensors\n")) {
		t.Errorf("the average has no sum: %s, %v", sums, err)
	}
	checkAverage(t, filepath.Join(at, "average", last))
}

// checkAverage compares the average's adapter with the averages that the checkpoint goes on with.
func checkAverage(t *testing.T, dir string) {
	t.Helper()
	state, err := safetensors.Open(filepath.Join(dir, model.TensorsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	adapter, err := safetensors.Open(filepath.Join(dir, model.EMA, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer adapter.Close()
	kept := map[string]bool{}
	for _, name := range state.Names() {
		if strings.HasPrefix(name, model.Prefix(trainer.Average)) {
			x, err := state.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			kept[string(x.Data)] = true
		}
	}
	names := adapter.Names()
	if len(names) == 0 || len(names) != len(kept) {
		t.Errorf("the adapter has %d tensors, and there are %d averages", len(names), len(kept))
	}
	if i := slices.IndexFunc(names, func(name string) bool {
		x, err := adapter.Tensor(name)
		return err != nil || !kept[string(x.Data)]
	}); i >= 0 {
		t.Errorf("%s is no average", names[i])
	}
}
