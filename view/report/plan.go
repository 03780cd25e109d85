package report

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

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
