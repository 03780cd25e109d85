package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Workers that are not let at a run, or should not be.

// TestFleetLiar: a worker whose numbers differ in one bit is named, and the run has the bytes of one without it. On a
// busy machine the liar may come late; a difference in a run's last job is reported, and nobody is dismissed at its
// end.
func TestFleetLiar(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	alone := filepath.Join(t.TempDir(), "alone")
	if _, err := trainAs(t, parse(t, "run.iterations=4"), Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	t.Run("beside an honest one", func(t *testing.T) { lies(t, alone, "honest") })
	t.Run("beside the trainer", func(t *testing.T) { lies(t, alone) }) // so that its results are the first
}

// lies runs with a worker that returns other bits, and compares with a run that nobody helped.
func lies(t *testing.T, alone string, beside ...string) {
	helped := filepath.Join(t.TempDir(), "helped")
	c := newCrew(t)
	for _, name := range beside {
		c.join(name, nil)
	}
	c.join("liar", func(j fleet.Job, payload []byte) []byte {
		samples, passes, err := fleet.Unpack(payload, j.All(), nil)
		if err != nil {
			return payload
		}
		samples[0].Item.Final[0] += 1e-3
		other, err := fleet.Pack(samples, passes, nil)
		if err != nil {
			t.Error(err)
		}
		return other
	})
	var says strings.Builder
	_, f := c.train(parse(t, "run.iterations=4"), Options{Dir: helped, Say: func(format string, args ...any) { fmt.Fprintf(&says, format+"\n", args...) }}, fleet.Options{Audit: 1, Local: len(beside) == 0})
	c.close()
	by := workOf(t, helped)
	same(t, "with a liar", contents(t, alone), contents(t, helped))
	if len(f.Refused()) != 1 || f.Refused()["liar"] == "" || by["liar"] != 0 || !strings.Contains(says.String(), "worker liar is dismissed") {
		t.Errorf("refused %v, who did how much %v:\n%s", f.Refused(), by, says.String())
	}
}

// TestFleetRefuses: a worker of another version, of another arithmetic or with another model ends with the reason
// before it opens anything; a worker whose files are only not there yet fails, and is tried again.
func TestFleetRefuses(t *testing.T) {
	own := t.TempDir()
	from, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(own, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	of := &loop{Experiment: parse(t, "model.path="+own), Options: Options{Version: "v1", Class: "ref"}, train: []prompts.Prompt{{Text: "a red circle"}}}
	setup, err := of.setup()
	if err != nil {
		t.Fatal(err)
	}
	hub := fleet.NewInside()
	defer hub.Close()
	publish := func(s fleet.Setup) fleet.Blob {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		name, err := hub.Put(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	right := publish(setup)
	config := filepath.Join(own, "model_index.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		about   fleet.About
		setup   fleet.Blob
		changed bool
		path    string
		unfit   bool
		says    string
	}{
		{"version", fleet.About{Version: "v2", Class: "ref"}, right, false, "", true, "version v1 of the program, and this worker v2"},
		{"class", fleet.About{Version: "v1", Class: "a GPU"}, right, false, "", true, `computes as "ref", and this worker as "a GPU"`},
		{"files", fleet.About{Version: "v1", Class: "ref"}, right, true, "", true, "model_index.json: it has"},
		{"folder", fleet.About{Version: "v1", Class: "ref"}, right, false, filepath.Join(own, "nothing"), true, "hint: --model names"},
		{"no setup", fleet.About{Version: "v1", Class: "ref"}, fleet.Blob{Hash: fleet.Hash{1}, Size: 1}, false, "", false, "fetching the run's setup"},
		{"empty setup", fleet.About{Version: "v1", Class: "ref"}, publish(fleet.Setup{}), false, "", false, "no experiment or no prompts"},
	} {
		if c.changed {
			if err := os.WriteFile(config, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := &fleet.Executor{Blobs: hub, About: c.about, Open: func(ctx context.Context, s fleet.Setup) (model.Model, *experiment.Experiment, error) {
			return OpenWorker(s, Worker{Model: c.path}, model.Options{Context: ctx})
		}}
		_, err := s.Do(t.Context(), fleet.Job{Setup: c.setup, Keys: []fleet.Keys{{Samples: 1}}})
		var unfit fleet.Unfit
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, &unfit) != c.unfit {
			t.Errorf("%s: %v (ends the worker: %v); want %q", c.what, err, errors.As(err, &unfit), c.says)
		}
		if err := os.WriteFile(config, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFleetMemory: a worker keeps to the memory that the experiment, or its own command, names.
func TestFleetMemory(t *testing.T) {
	dir, err := madeTiny()
	if err != nil {
		t.Fatal(err)
	}
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	be := cpu.NewWith(cpu.Options{Path: path})
	defer be.Close()
	for _, c := range []struct{ file, here string }{{"1MiB", ""}, {"", "1MiB"}, {"1GiB", "1MiB"}} {
		of := &loop{Experiment: parse(t, "model.path="+dir, fmt.Sprintf("run.memory=%q", c.file)), train: []prompts.Prompt{{Text: "a red circle"}}}
		setup, err := of.setup()
		if err != nil {
			t.Fatal(err)
		}
		var says []string
		m, _, err := OpenWorker(setup, Worker{Memory: c.here, Say: saying(&says)}, model.Options{Backend: be})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(strings.Join(says, "\n"), `more than run.memory = "1MiB"`) {
			t.Errorf("%+v: it says %q", c, says)
		}
	}
}

// TestFleetSubtle: a worker whose means are wrong by a little, and whose log-probabilities fit them, fails the check of
// the policy with which a run begins. It is named, its samples are rolled here, and the run has the bytes of one
// without it, though no result is compared by chance.
func TestFleetSubtle(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	alone, helped := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "helped")
	e := parse(t, "run.iterations=2")
	if _, err := trainAs(t, e, Options{Dir: alone}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	c.join("subtle", func(j fleet.Job, payload []byte) []byte {
		samples, passes, err := fleet.Unpack(payload, j.All(), nil)
		if err != nil || j.How.Fixed || j.How.Iteration > 0 {
			return payload
		}
		settings, err := e.Iteration(j.How.Iteration)
		if err != nil {
			t.Error(err)
			return payload
		}
		for _, s := range samples {
			d := s.Decisions
			for k, step := range d.Step {
				d.Mean[k] = append([]float64(nil), d.Mean[k]...)
				d.Mean[k][0] += 1e-2
				d.LogProb[k] = settings.Rows[step].LogProb(d.Mean[k], d.Action[k])
			}
		}
		other, err := fleet.Pack(samples, passes, nil)
		if err != nil {
			t.Error(err)
		}
		return other
	})
	var says strings.Builder
	_, f := c.train(parse(t, "run.iterations=2"), Options{Dir: helped, Say: func(format string, args ...any) { fmt.Fprintf(&says, format+"\n", args...) }}, fleet.Options{})
	c.close()
	workOf(t, helped)
	same(t, "with a worker that is wrong by a little", contents(t, alone), contents(t, helped))
	if f.Refused()["subtle"] == "" || !strings.Contains(says.String(), "workers' samples are rolled here again") {
		t.Errorf("dismissed %v:\n%s", f.Refused(), says.String())
	}
}
