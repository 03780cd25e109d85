package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// A Run is the content of a run's folder; the run may be under way.
type Run struct {
	Dir, Name string
	Config    string
	Lines     []ledger.Line              // the valid lines of the ledger
	Abandoned []ledger.Line              // abandoned lines, and the rollbacks
	Result    *ledger.Result             // nil: nothing was measured yet
	Seconds   map[int]map[string]float64 // of each iteration, by part

	experiment *experiment.Experiment // nil where this version cannot read it
	settings   *Settings
}

// Read reads a folder. Missing files are left out.
func Read(dir string) (*Run, error) {
	var b ledger.Book
	seconds, err := ledger.ReadTiming(filepath.Join(dir, "timing.jsonl"))
	if err == nil {
		b.Kept, b.Abandoned, err = ledger.Read(filepath.Join(dir, "ledger.jsonl"))
	}
	r, failed := ReadWith(dir, b, seconds, new(Settings))
	if failed != nil {
		return nil, failed
	}
	return r, err
}

// ReadWith is Read where the ledger and the seconds of iterations are known already, and maybe the settings.
func ReadWith(dir string, b ledger.Book, seconds map[int]map[string]float64, known *Settings) (*Run, error) {
	r := &Run{Dir: dir, Name: filepath.Base(filepath.Clean(dir)), Lines: b.Kept, Abandoned: b.Abandoned, Seconds: seconds}
	config, err := os.ReadFile(filepath.Join(dir, folder.Config))
	if err != nil {
		return nil, fmt.Errorf("%s holds no run: %w", dir, err)
	}
	if err := folder.Own(dir); err != nil {
		return nil, err
	}
	r.Config = string(config)
	known.read(r.Config)
	r.settings, r.experiment = known, known.experiment
	path := filepath.Join(dir, "result.json")
	switch text, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(text, &r.Result); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return r, nil
}

// An Evaluated is a held-out measure after an iteration.
type Evaluated struct {
	Iteration int     `json:"iteration"`
	Seconds   float64 `json:"seconds"` // of training until then, without evaluations
	ledger.Measure
}

// HeldOut are the measures of a reward, or of "total", the one before training first.
func (r *Run) HeldOut(name string) []Evaluated {
	var all []Evaluated
	if r.Result != nil {
		if g := r.Result.HeldOut[name]; g.Before != nil {
			all = append(all, Evaluated{Measure: *g.Before})
		}
	}
	seconds := 0.0
	for _, l := range r.Lines {
		seconds += ledger.Work(r.Seconds[l.Iteration])
		if m, ok := l.HeldOut[name]; ok {
			all = append(all, Evaluated{l.Iteration, seconds, m})
		}
	}
	return all
}

// Gains are held-out scores before and after; of a run under way, after its latest evaluation.
func (r *Run) Gains() map[string]ledger.Gain {
	all := map[string]ledger.Gain{}
	if r.Result == nil {
		return all
	}
	maps.Copy(all, r.Result.HeldOut)
	if r.Result.Status != ledger.UnderWay {
		return all
	}
	for _, l := range r.Lines {
		for name, m := range l.HeldOut {
			all[name] = ledger.Gain{Before: all[name].Before, After: &m, Iteration: l.Iteration}
		}
	}
	return all
}

// Iterations are those that are finished.
func (r *Run) Iterations() int {
	if len(r.Lines) == 0 {
		return 0
	}
	return r.Lines[len(r.Lines)-1].Iteration
}

// kinds says of each reward whether it is trained on.
func (r *Run) kinds() map[string]string {
	if r.Result != nil && len(r.Result.Rewards) > 0 {
		return r.Result.Rewards
	}
	all := map[string]string{}
	if r.experiment != nil {
		for _, one := range r.experiment.Rewards {
			all[one.Called()] = "gold"
		}
		for _, at := range r.experiment.EachStage() {
			for _, one := range at.Rewards {
				if one.Train {
					all[one.Called()] = "trained"
				}
			}
		}
	}
	return all
}

// trained are the rewards that a run is trained on, in one text.
func (r *Run) trained() string {
	var names []string
	for name, kind := range r.kinds() {
		if kind == "trained" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}

// PerIteration is the mean seconds of an iteration: roll, score, train and all, which is their sum.
// The first of several iterations is left out: it also fills caches.
func (r *Run) PerIteration() map[string]float64 {
	sums, n := map[string]float64{}, 0.0
	for k, l := range r.Lines {
		s, ok := r.Seconds[l.Iteration]
		if !ok || k == 0 && len(r.Lines) > 1 {
			continue
		}
		for _, part := range []string{"roll", "score", "train"} {
			sums[part] += s[part]
		}
		sums["all"] += ledger.Work(s)
		n++
	}
	for part := range sums {
		sums[part] /= n
	}
	return sums
}

// Status is how the run ended, or that it has not.
func (r *Run) Status() string {
	if r.Result == nil || r.Result.Status == ledger.UnderWay {
		return "under way, or ended by a failure"
	}
	return r.Result.Status
}

// Settings are computed from a run's config.toml alone. A reader that comes back to a run hands in the same ones:
// they are computed again only for a changed file.
type Settings struct {
	text       string
	experiment *experiment.Experiment // nil where this version cannot read it
	plan       *plan
	planned    bool
}

func (s *Settings) read(config string) {
	if s.text == config && config != "" {
		return
	}
	*s = Settings{text: config}
	if e, err := experiment.Parse(folder.Config, []byte(config), nil); err == nil {
		s.experiment = e
	}
}

// planOf returns their plan; nil where this version cannot make one.
func (s *Settings) planOf() *plan {
	if s != nil && !s.planned && s.experiment != nil {
		s.plan, s.planned = planned(s.experiment), true
	}
	if s == nil {
		return nil
	}
	return s.plan
}

// plan summarises a run's experiment, as darkroom plan prints it.
type plan struct {
	Facts    []experiment.Fact `json:"facts"`
	Stages   []stage           `json:"stages"`
	Warnings []string          `json:"warnings"`
}

type stage struct {
	Title string               `json:"title"`
	Facts []experiment.Fact    `json:"facts"`
	Rows  []experiment.PlanRow `json:"rows"`
}

// planned is an experiment's; nil where this version cannot say it.
func planned(e *experiment.Experiment) *plan {
	p, err := e.Plan()
	if err != nil {
		return nil
	}
	v := &plan{Facts: p.Facts}
	for _, w := range p.Warnings {
		if !strings.Contains(w, "not read") { // the file is resolved: it has every key, from any source
			v.Warnings = append(v.Warnings, w)
		}
	}
	for _, s := range p.Stages {
		one := stage{Facts: s.Facts, Rows: s.Rows, Title: fmt.Sprintf("iterations %d to %d", s.First, s.First+s.Iterations-1)}
		if s.Name != "" {
			one.Title = s.Name + ": " + one.Title
		}
		v.Stages = append(v.Stages, one)
	}
	return v
}
