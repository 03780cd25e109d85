package report

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// Summary is one run's row in a list of runs.
type Summary struct {
	ID         string           `json:"id"` // of a page with several runs: it tells them apart
	Name       string           `json:"name"`
	Dir        string           `json:"dir"`
	Status     string           `json:"status"`
	Live       bool             `json:"live"` // it has not ended, as far as its folder says
	Why        string           `json:"why,omitempty"`
	Model      string           `json:"model"`
	Method     string           `json:"method"`
	Trained    string           `json:"trained"` // rewards
	Iterations int              `json:"iterations"`
	Planned    int              `json:"planned"` // 0: not known
	Seconds    float64          `json:"seconds"` // of all iterations
	Written    int64            `json:"written"` // when the ledger was written last, in Unix seconds; 0: never
	Verdict    Verdict          `json:"verdict"`
	Gains      []Gain           `json:"gains"`
	Fired      int              `json:"fired"`
	Reward     Curve            `json:"reward"`  // of the training samples
	HeldOut    map[string]Curve `json:"heldout"` // by reward
}

// mostOverviewPoints are those of a curve in a list of runs.
const mostOverviewPoints = 240

// Summarise says it. The run may have been read briefly: totals, held-out measures and monitors are enough.
func Summarise(r *Run) Summary {
	s := Summary{Name: r.Name, Dir: filepath.ToSlash(filepath.Clean(r.Dir)), Status: r.Status(), Live: r.Result == nil || r.Result.Status == ledger.UnderWay,
		Trained: r.trained(), Iterations: r.Iterations(), HeldOut: map[string]Curve{}}
	if r.Result != nil {
		s.Why = r.Result.Why
	}
	if e := r.experiment; e != nil {
		s.Model, s.Planned = strings.TrimPrefix(e.Model.Path, "embed:"), e.Run.Iterations
		s.Method = e.Loss.Objective
		if e.Preset != "" {
			s.Method = e.Preset
		}
	}
	for _, i := range slices.Sorted(maps.Keys(r.Seconds)) {
		s.Seconds += r.Seconds[i]["all"]
	}
	for _, l := range r.Lines {
		s.Fired += len(l.Fired)
	}
	for _, l := range r.Abandoned {
		if l.Rollback != nil {
			s.Fired++
		}
	}
	of := r.Gains()
	s.Gains = r.gains(of, true)
	s.Verdict = r.verdict(s.Gains, s.Fired)
	s.Reward = r.measured("training samples", "total").thinned(mostOverviewPoints)
	for name := range of {
		if c := r.held(name, name); len(c.X) > 0 {
			s.HeldOut[name] = c.thinned(mostOverviewPoints)
		}
	}
	return s
}
