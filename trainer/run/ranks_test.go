package run

import (
	"bytes"
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// trainOn is train on this number of backends; resumed, with other numbers of threads.
func trainOn(t *testing.T, e *experiment.Experiment, dir string, resume bool, ranks, stop int) (*ledger.Result, error) {
	t.Helper()
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: dir, Resume: resume, Say: t.Logf}
	for r := range ranks {
		threads := 1 + r%2
		if resume {
			threads = 3 - threads
		}
		be := cpu.NewWith(cpu.Options{Path: path, Threads: threads})
		defer be.Close()
		if r == 0 {
			o.Backend = be
		} else {
			o.Further = append(o.Further, be)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Report = func(l *ledger.Line, _ *ledger.TimingLine) {
		if l.Iteration == stop {
			cancel()
		}
	}
	return Run(ctx, e, o)
}

// TestRanks: two ranks leave the same bytes where they were stopped and went on; until weights move for
// the first time they are one rank, to the last bit, and then near it.
func TestRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	// Three samples of one prompt, which begin alike: shares are unequal, and the first step of one
	// question leaves a rank without a gradient.
	sets := []string{"run.iterations=2", "rollout.prompts_per_iteration=1", "run.device=cpu,cpu"}
	dir := t.TempDir()
	one, two, parts := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "parts")
	for _, run := range []struct {
		dir         string
		resume      bool
		ranks, stop int
	}{{one, false, 1, 1}, {two, false, 2, -1}, {parts, false, 2, 1}, {parts, true, 2, -1}} {
		if r, err := trainOn(t, parse(t, sets...), run.dir, run.resume, run.ranks, run.stop); err != nil || (r.Status == ledger.Finished) != (run.stop < 0) {
			t.Fatalf("%d ranks: %v, %v", run.ranks, r, err)
		}
	}
	want, alone := contents(t, two), contents(t, one)
	same(t, "stopped and resumed", want, contents(t, parts))
	t.Run("a rank fails", func(t *testing.T) { rankFails(t, sets, want) })
	first := func(all map[string][]byte) [][]byte {
		var lines [][]byte
		for line := range bytes.Lines(all["samples.jsonl"]) {
			if bytes.Contains(line, []byte(`"iteration":1,`)) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	a, b := first(alone), first(want)
	if len(a) != 3 || !bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) {
		t.Errorf("%d samples of the first iteration, and %d of one rank: they differ", len(b), len(a))
	}
	for name := range alone {
		if strings.HasPrefix(name, "images/") && strings.Contains(name, "000001") && !bytes.Equal(alone[name], want[name]) {
			t.Errorf("%s differs from one rank's", name)
		}
	}
	la, lb := readLedger(t, one), readLedger(t, two)
	if u, v := la[0].Updates[0], lb[0].Updates[0]; u.Loss != v.Loss || v.RatioMost != 1 || math.Abs(u.Gradient-v.Gradient) > 1e-5*u.Gradient || u.Gradient == 0 {
		t.Errorf("the first update is %+v on two ranks, and %+v on one", v, u)
	}
	if p, q := *la[0].Passes, *lb[0].Passes; p.Train != q.Train || p.Backward != q.Backward || q.Rollout != p.Rollout+1 {
		t.Errorf("passes of the network: %+v on two ranks, and %+v on one; what the group has in common is rolled on both", q, p)
	}
	_, err := trainOn(t, parse(t, append(sets, "run.device=cpu")...), two, true, 1, -1)
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "depends on how many there are") {
		t.Errorf("resumed on one device: %v", err)
	}
}
