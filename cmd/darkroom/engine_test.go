package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/fleet"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/internal/rigs/enginetest"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

const enginePlays = `
[run]
name = "far"
iterations = 3
[model]
path = "speaker"
lora = { rank = 2, alpha = 4, targets = ["q_proj", "v_proj"] }
[episode]
system = ""
protocol = "darkroom"
tools = ["zoom"]
turns = 2
turn_tokens = 40
tokens = 300
sampling = { temperature = 1.5 }
engine = { url = "URL", kind = "sglang", at_once = 2, folder = "adapters" }
[rollout]
prompts = "embed:zoom"
prompts_per_iteration = 2
group = 4
[[reward]]
name = "repetition"
repetition = { of = "tokens", n = 1 }
[loss]
clip_range = 0.2
[optim]
lr = 1e-2
[checkpoint]
every = 1
`

// TestEngineTrains: a run whose tokens an engine draws. Every iteration's weights are another adapter, the engine's
// log-probabilities are corrected, the check before the first update stands in the ledger and is said; killed, the
// run goes on from its state.
func TestEngineTrains(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	dir := t.TempDir()
	speaker(t, filepath.Join(dir, "speaker"), 1)
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	s, err := enginetest.Serve(func() (*chat.VLM, error) {
		return chat.Open(filepath.Join(dir, "speaker"), chat.Options{Pool: pool})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(filepath.Join(dir, "far.toml"), []byte(strings.ReplaceAll(enginePlays, "URL", s.URL)), 0o644); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "run")
	cmd, log := started(t, dir, "train", "far.toml", "--out", run)
	for range 3000 { // until a checkpoint is there
		if at, err := filepath.Glob(filepath.Join(run, "checkpoints", "00000[1-9]")); err == nil && len(at) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	had := ledgerLines(t, run)
	if len(had) == 0 {
		t.Fatalf("nothing was learned before it was killed:\n%s", log)
	}
	if cmd, again := started(t, dir, "train", "far.toml", "--out", run, "--resume"); cmd.Wait() != nil {
		t.Fatal(again)
	}
	all := ledgerLines(t, run)
	if len(all) != 3 || !bytes.Equal(all[0], had[0]) {
		t.Fatalf("%d iterations, the first %s, and before it was killed %s", len(all), all[0], had[0])
	}
	for i, text := range all {
		var l ledger.Line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		if len(l.Updates) != 1 {
			t.Fatalf("iteration %d teaches nothing: %s", i+1, text)
		}
		u := l.Updates[0]
		if _, weighed := u.Metrics["correction_weight"]; u.RatioMost != 1 || u.Mismatch != 0 || !weighed || l.Episodes["lost"] != 0 {
			t.Errorf("iteration %d: ratio %v, metrics %v, episodes %v", i+1, u.RatioMost, u.Metrics, l.Episodes)
		}
		if c := l.Check; i == 0 && (c == nil || c.Ratio != 1 || c.Floor == nil || *c.Floor == 0 || *c.Floor > 1e-3 || c.ClipRange != 0.2) {
			t.Errorf("the check before the first update: %+v", c)
		}
	}
	if !strings.Contains(log.String(), "before the first update the ratio is 1 on") {
		t.Errorf("nothing says how far the engine lies from the trainer:\n%s", log)
	}
	if n := s.Adapters(); n < 3 {
		t.Errorf("the engine was given %d adapters in 3 iterations", n)
	}
}

// TestEngineWithoutWorkers: an engine draws, so workers are refused.
func TestEngineWithoutWorkers(t *testing.T) {
	e, err := experiment.Parse("far.toml", []byte(strings.ReplaceAll(enginePlays, "URL", "http://localhost:1")), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := fleet.Options{Listen: "127.0.0.1:0"}
	var usage exits.UsageError
	if err := o.Check(new(cobra.Command), e); !errors.As(err, &usage) || !strings.Contains(err.Error(), "an engine draws this run's tokens") {
		t.Errorf("workers beside an engine: %v", err)
	}
	e.Episode.Engine = nil
	if err := o.Check(new(cobra.Command), e); err != nil {
		t.Error(err)
	}
}

// ledgerLines are those of a run's ledger.
func ledgerLines(t *testing.T, run string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(run, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}
