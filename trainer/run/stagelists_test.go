package run

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/vision"
)

// listedRun is a run whose stages have lists, pictures and trained parts of their own.
func listedRun(t *testing.T, dir string) *experiment.Experiment {
	t.Helper()
	for name, text := range map[string]string{"a.txt": "a red circle\na blue circle\na green circle\n", "b.txt": "a red square\na blue square\n",
		"red.txt": "a red circle on white", "blue.txt": "a blue circle on white"} {
		at := dir
		if !strings.Contains(name, "a.") && !strings.Contains(name, "b.") {
			at = filepath.Join(dir, "album")
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]color.RGBA{"red": {220, 40, 40, 255}, "blue": {50, 80, 220, 255}} {
		if err := vision.WriteFile(filepath.Join(dir, "album", name+".png"), vision.NewFilled(64, 64, c)); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	return parseText(t, small+fmt.Sprintf(`
[[stage]]
name = "pictures"
iterations = 1
rollout = { prompts = %q, offline = true, group = 1 }
loss = { objective = "sft" }
advantage = { estimator = "best" }
[[stage]]
name = "shares"
iterations = 2
train = ".*lora_B.*"
rollout = { prompts = [%q, %q], shares = [3, 1] }
[[stage]]
name = "one"
iterations = 1
rollout = { prompts = %q }
`, in("album"), in("a.txt"), in("b.txt"), in("b.txt")), tiny(t), `evaluate={every=0, prompts=""}`)
}

// TestStagesLists: stages learn from pictures, draw from lists by shares, and go on with one list; the parameters
// outside of a stage stay. Stopped at boundaries and resumed with other numbers of threads, or rolled by a worker,
// the run leaves the same bytes.
func TestStagesLists(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	at, runs := t.TempDir(), t.TempDir()
	whole := filepath.Join(runs, "whole")
	if r, err := train(t, listedRun(t, at), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	parts := filepath.Join(runs, "parts")
	for _, stop := range []int{1, 2, 4} {
		if _, err := train(t, listedRun(t, at), parts, stop > 1, 1+stop%2, stop); err != nil {
			t.Fatalf("iteration %d: %v", stop, err)
		}
		if stop == 2 {
			checkMoved(t, parts)
		}
	}
	want := contents(t, whole)
	same(t, "stopped at its stages", want, contents(t, parts))
	crew, helped := newCrew(t), filepath.Join(runs, "helped")
	crew.join("w", nil)
	crew.train(listedRun(t, at), Options{Dir: helped}, fleet.Options{})
	crew.close()
	if by := workOf(t, helped); by["w"] == 0 {
		t.Errorf("who rolled: %v", by)
	}
	same(t, "rolled by a worker", want, contents(t, helped))
	var from []string
	for _, l := range readLedger(t, whole) {
		in := func(name string) int { return l.Lists[filepath.Join(at, name)] }
		from = append(from, fmt.Sprintf("%s %d %d %d", l.Stage, in("album"), in("a.txt"), in("b.txt")))
	}
	if got := strings.Join(from, ", "); got != "pictures 2 0 0, shares 0 2 0, shares 0 1 1, one 0 0 2" {
		t.Errorf("prompts of the lists: %s", got)
	}
}

// checkMoved: in the second iteration, whose stage moves B alone, A keeps its bytes.
func checkMoved(t *testing.T, dir string) {
	t.Helper()
	moved := map[string]int{}
	before, after := adapterOf(t, dir, 1), adapterOf(t, dir, 2)
	for name, data := range before {
		if !bytes.Equal(data, after[name]) {
			moved[name[len(name)-len("A.weight"):]]++
		}
	}
	if moved["A.weight"] != 0 || moved["B.weight"] == 0 {
		t.Errorf("a stage that moves B moves %v", moved)
	}
}

// adapterOf are the bytes of a checkpoint's adapter.
func adapterOf(t *testing.T, dir string, iteration int) map[string][]byte {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(dir, fmt.Sprintf("checkpoints/%06d/adapter_model.safetensors", iteration)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]byte{}
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = bytes.Clone(x.Data)
	}
	return all
}
