package report

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// plan is what a run's experiment amounts to, as darkroom plan says it.
type plan struct {
	Facts    []experiment.Fact
	Stages   []stage
	Warnings []string
}

type stage struct {
	Title string
	Facts []experiment.Fact
	Rows  []experiment.PlanRow
}

// planned reads it from the folder's config.toml; nil where this version cannot.
func planned(r *Run) *plan {
	e, err := experiment.Parse("config.toml", []byte(r.Config), nil)
	if err != nil {
		return nil
	}
	p, err := e.Plan()
	if err != nil {
		return nil
	}
	v := &plan{Facts: p.Facts, Warnings: p.Warnings}
	for _, s := range p.Stages {
		one := stage{Facts: s.Facts, Rows: s.Rows, Title: fmt.Sprintf("iterations %d to %d", s.First+1, s.First+s.Iterations)}
		if s.Name != "" {
			one.Title = s.Name + ": " + one.Title
		}
		v.Stages = append(v.Stages, one)
	}
	return v
}
