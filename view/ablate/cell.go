package ablate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/view/report"
)

// A Budget limits every run: iterations, or seconds of training without evaluations.
type Budget struct {
	Iterations int     `json:"iterations,omitempty"`
	Seconds    float64 `json:"seconds,omitempty"`
}

// ParseBudget reads 40, or 90s, 10m, 1h30m; an empty text means the base's value.
func ParseBudget(s string) (Budget, error) {
	if s == "" {
		return Budget{}, nil
	}
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil && n > 0 {
		return Budget{Iterations: n}, nil
	}
	if d, err := time.ParseDuration(strings.TrimSpace(s)); err == nil && d > 0 {
		return Budget{Seconds: d.Seconds()}, nil
	}
	return Budget{}, fmt.Errorf("--budget %q is neither iterations nor a time\nhint: for example --budget 40, --budget 90s, --budget 10m", s)
}

func (b Budget) sets() []string {
	if b.Iterations == 0 {
		return nil
	}
	return []string{fmt.Sprintf("run.iterations=%d", b.Iterations)}
}

// A Cell is a combination of values.
type Cell struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
	Trials []*Trial `json:"-"`
}

// A Trial is a cell's run with one seed.
type Trial struct {
	Seed       int
	Dir        string
	Device     string // that it runs on, where the grid was given devices
	Err        error  // why it has no result
	experiment *experiment.Experiment
	resume     bool
	done       bool
}

// look reads the state of the folder. A run with other settings is a mistake.
func (r *Trial) look(b Budget) error {
	path := filepath.Join(r.Dir, folder.Config)
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	r.resume = true
	before, err := experiment.Parse(path, old, nil)
	if err != nil {
		return err
	}
	if list := experiment.Changes(before, r.experiment); len(list) > 0 {
		return fmt.Errorf("%s: %w:\n  %s\nhint: --out names another folder", r.Dir, run.ErrChanged, strings.Join(list, "\n  "))
	}
	run, err := report.Read(r.Dir)
	if err != nil {
		return err
	}
	if n := len(run.Lines); n > r.experiment.Run.Iterations {
		return fmt.Errorf("%s has %d iterations already, and the budget is %d\nhint: --out names another folder", r.Dir, n, r.experiment.Run.Iterations)
	}
	if run.Result == nil {
		return nil
	}
	spent := 0.0
	for _, l := range run.Lines {
		spent += ledger.Work(run.Seconds[l.Iteration])
	}
	switch run.Result.Status {
	case ledger.Stopped:
		r.done = true
	case ledger.Finished:
		r.done = run.Result.Iterations == r.experiment.Run.Iterations || b.Seconds > 0 && spent >= b.Seconds
	}
	return nil
}

// Iterations are those that the run has when it is finished, unless its time is up before.
func (r *Trial) Iterations() int { return r.experiment.Run.Iterations }
