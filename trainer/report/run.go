package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// A Run is what a folder says of a run, which may be under way.
type Run struct {
	Dir, Name string
	Config    string
	Lines     []ledger.Line              // what counts of the ledger
	Abandoned []ledger.Line              // what rollbacks took back, and they themselves
	Result    *ledger.Result             // nil: it has not ended
	Seconds   map[int]map[string]float64 // of each iteration, by part
}

// Read reads a folder. What is not there yet is left out.
func Read(dir string) (*Run, error) {
	r := &Run{Dir: dir, Name: filepath.Base(filepath.Clean(dir))}
	config, err := os.ReadFile(filepath.Join(dir, folder.Config))
	if err != nil {
		return nil, fmt.Errorf("%s holds no run: %w", dir, err)
	}
	if err := folder.Own(dir); err != nil {
		return nil, err
	}
	r.Config = string(config)
	if r.Lines, r.Abandoned, err = ledger.Read(filepath.Join(dir, "ledger.jsonl")); err != nil {
		return nil, err
	}
	if r.Seconds, err = ledger.ReadTiming(filepath.Join(dir, "timing.jsonl")); err != nil {
		return nil, err
	}
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
		if g, ok := r.Result.HeldOut[name]; ok {
			all = append(all, Evaluated{Measure: g.Before})
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
	if r.Result == nil {
		return "under way, or killed"
	}
	return r.Result.Status
}
