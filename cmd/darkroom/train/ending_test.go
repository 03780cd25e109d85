package train

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// TestIterationLine: a value that was not measured is not shown as a number.
func TestIterationLine(t *testing.T) {
	nan, timing := math.NaN(), &ledger.TimingLine{Seconds: map[string]float64{"all": 1}}
	for want, l := range map[string]*ledger.Line{
		"   3  reward 0.500  in groups ±0.100  gradient 2  1.0 s":                      {Samples: 2, Total: ledger.SpreadOf([]float64{0, 1}), Updates: []ledger.UpdateLine{{Gradient: 2}}},
		"   3  reward 0.500  in groups ±0.100  gradient 2  kl 0.3  1.0 s":              {Samples: 2, Total: ledger.SpreadOf([]float64{0, 1}), Updates: []ledger.UpdateLine{{Gradient: 2, Metrics: map[string]float64{"kl": 0.3}}}},
		"   3  reward 0.500  in groups ±0.100  gradient 3  1.0 s":                      {Samples: 2, Total: ledger.SpreadOf([]float64{0, 1}), Updates: []ledger.UpdateLine{{Gradient: 3, Metrics: map[string]float64{"kl": 0}}}},
		"   3  reward 1.000  in groups ±0.100  missing 1 of 2  1.0 s":                  {Samples: 2, Total: ledger.SpreadOf([]float64{nan, 1})},
		"   3  reward missing  missing 2 of 2  1.0 s":                                  {Samples: 2, Total: ledger.SpreadOf([]float64{nan, nan})},
		"   3  reward 0.500  in groups ±0.100  1.0 s  held out 1.000 (0.000 to 2.000)": {Samples: 2, Total: ledger.SpreadOf([]float64{0, 1}), HeldOut: map[string]ledger.Measure{"total": {Mean: 1, High: 2}}},
		"   3  loss 0.25  gradient 2  1.0 s":                                           {Samples: 2, Total: ledger.SpreadOf([]float64{nan, nan}), Updates: []ledger.UpdateLine{{Loss: 0.25, Gradient: 2}}},
		"   3  no reward  1.0 s":                                                       {Samples: 2, Total: ledger.SpreadOf([]float64{nan, nan})},
	} {
		l.Iteration, l.Spread = 3, 0.1
		if !strings.Contains(want, "no reward") && !strings.Contains(want, "loss") {
			l.Rewards = map[string]ledger.Spread{"scene": l.Total}
		}
		if got := IterationLine(l, timing); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEnding: the table has the measured values, and marks the others as not measured.
func TestEnding(t *testing.T) {
	before, after := &ledger.Measure{Mean: 0.5, Low: 0.4, High: 0.6, Prompts: 3}, &ledger.Measure{Mean: 0.75, Low: 0.7, High: 0.8, Prompts: 3, Missing: 2}
	paint := &experiment.Experiment{}
	talk := &experiment.Experiment{Episode: &experiment.Episode{}}
	for _, c := range []struct {
		what      string
		e         ending
		says, not []string
	}{
		{"a whole run", ending{Result: &ledger.Result{Status: ledger.Finished, Iterations: 60, HeldOut: map[string]ledger.Gain{"scene": {Before: before, After: after, Iteration: 60}}}, Experiment: paint, took: 2 * time.Minute},
			[]string{"finished after 60 iterations and 2m0s", "+0.250", "scene: 2 samples AFTER without a score"}, []string{"not measured", "AFTER is after"}},
		{"Ctrl-C before any evaluation", ending{Result: &ledger.Result{Status: ledger.Interrupted, Iterations: 3, HeldOut: map[string]ledger.Gain{"scene": {Before: before}}}, Experiment: paint},
			[]string{"scene", "not measured"}, []string{"+0.000"}},
		{"an older evaluation", ending{Result: &ledger.Result{Status: ledger.Interrupted, Iterations: 25, HeldOut: map[string]ledger.Gain{"scene": {Before: before, After: after, Iteration: 20}}}, Experiment: paint},
			[]string{"scene: AFTER is after iteration 20 of 25"}, nil},
		{"nothing held out", ending{Result: &ledger.Result{Status: ledger.Finished, Iterations: 1}, Experiment: paint, resumed: true},
			[]string{"finished after 1 iteration; there was nothing left to do", "nothing was measured on held-out prompts"}, []string{"BEFORE"}},
		{"a resumed run", ending{Result: &ledger.Result{Status: ledger.Finished, Iterations: 60}, Experiment: talk, resumed: true, here: 10, took: 4 * time.Second},
			[]string{"finished after 60 iterations, 10 of them now, in 4s"}, []string{"darkroom sample"}},
		{"an average was measured", ending{Result: &ledger.Result{Status: ledger.Finished, Iterations: 1}, Experiment: &experiment.Experiment{Evaluate: experiment.Evaluate{Weights: "ema"}, Optim: optim.Options{EMA: 0.9}}},
			[]string{"the moving average was measured, and is what sample, ask and export take"}, nil},
		{"an average that is not kept", ending{Result: &ledger.Result{Status: ledger.Finished, Iterations: 1}, Experiment: &experiment.Experiment{Evaluate: experiment.Evaluate{Weights: "ema"}}},
			nil, []string{"average"}},
	} {
		var out bytes.Buffer
		c.e.write(&out)
		for _, s := range c.says {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%s: it does not say %q:\n%s", c.what, s, out.String())
			}
		}
		for _, s := range c.not {
			if strings.Contains(out.String(), s) {
				t.Errorf("%s: it says %q:\n%s", c.what, s, out.String())
			}
		}
	}
}

// TestAgain: the command at the end names a prompt of the run, with its picture.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	e := ending{Experiment: &experiment.Experiment{}, dir: dir}
	if got := e.again(); got != "darkroom sample --run "+dir+" --prompt '...' --out a.png" {
		t.Error(got)
	}
	lines := `{"text":"a","picture":"images/1.png"}
{"text":"make the dog's nose red","picture":"images/2.png","sources":["images/source_1.png"]}
{"text":"not kept"}
`
	if err := os.WriteFile(filepath.Join(dir, "samples.jsonl"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := e.again(), "--prompt 'make the dog'\\''s nose red' --image "+filepath.Join(dir, "images", "source_1.png")+" --out a.png"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestAgainEdits: without samples of its own the command has the first prompt of the run's list, and its pictures.
func TestAgainEdits(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "edits.jsonl")
	row := `{"prompt":"make it night","image":["a b.png","embed:edits/3"]}` + "\n"
	for name, text := range map[string]string{list: row, filepath.Join(dir, "a b.png"): "a picture"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := ending{Experiment: &experiment.Experiment{}, dir: dir}
	e.Rollout.Prompts = []string{list}
	if got, want := e.again(), "--prompt 'make it night' --image '"+filepath.Join(dir, "a b.png")+"' --image FILE --out a.png"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestKept: the last words of a run that ends in the middle name the way that its folder allows.
func TestKept(t *testing.T) {
	for name, resumes := range map[string]bool{"": false, "fleet.jsonl": false, "pass_rates.jsonl": true, "heldout.jsonl": true} {
		written := []string{folder.Config}
		if name != "" {
			written = append(written, name)
		}
		dir := filepath.Join(t.TempDir(), "run")
		f, err := folder.Open(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range written {
			err = errors.Join(err, os.WriteFile(f.Path(file), []byte("{}\n"), 0o600))
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		said := kept(dir)
		f, err = folder.Open(dir, resumes)
		if err != nil || strings.Contains(said, "--resume") != resumes || strings.Contains(said, "the same command") == resumes {
			t.Errorf("%q: %s; that way leads to %v", name, said, err)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Error(err)
		}
		if resumes {
			if _, err := folder.Open(dir, false); !errors.Is(err, folder.ErrUsed) {
				t.Errorf("%q: the same command: %v", name, err)
			}
		}
	}
}
