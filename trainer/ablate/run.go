package ablate

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/trainer/report"
	"github.com/darkroom-rl/darkroom/trainer/training"
)

// Runner is what running a grid needs.
type Runner struct {
	Backend kernels.Backend
	Version string
	Say     func(format string, args ...any)
	// Report hears of every iteration: of which trial, the n-th of all.
	Report func(c *Cell, r *Trial, n, all int, line *training.Line, timing *training.TimingLine)
}

// Run runs every trial that is not finished, seed by seed, so that a grid that is stopped early has
// something of every cell. A trial that fails is told and passed over; the others go on. Where ctx
// is cancelled, the trial under way is saved and the error is ctx's.
func (g *Grid) Run(ctx context.Context, w Runner) error {
	var errs []error
	n, all := 0, len(g.Cells)*max(1, g.Seeds)
	for k := range max(1, g.Seeds) {
		for _, c := range g.Cells {
			n++
			r := c.Trials[k]
			if r.done {
				w.Say("[%d/%d] %s, seed %d: finished before", n, all, c.Name, r.Seed)
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := g.one(ctx, w, c, r, n, all); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.Err = err
				w.Say("[%d/%d] %s, seed %d failed: %v", n, all, c.Name, r.Seed, err)
				errs = append(errs, fmt.Errorf("%s, seed %d: %w", c.Name, r.Seed, err))
			}
		}
	}
	return errors.Join(errs...)
}

// one runs or goes on with a trial, and writes its page.
func (g *Grid) one(ctx context.Context, w Runner, c *Cell, r *Trial, n, all int) error {
	say := func(format string, args ...any) { w.Say("[%d/%d] "+format, append([]any{n, all}, args...)...) }
	say("%s, seed %d, in %s", c.Name, r.Seed, r.Dir)
	result, err := training.Run(ctx, r.experiment, training.Options{Dir: r.Dir, Resume: r.resume, Backend: w.Backend, Version: w.Version, Seconds: g.Budget.Seconds, Say: say,
		Report: func(line *training.Line, timing *training.TimingLine) {
			if w.Report != nil {
				w.Report(c, r, n, all, line, timing)
			}
		}})
	if err != nil {
		return err
	}
	if result.Status == training.Interrupted {
		return context.Canceled
	}
	r.done = true
	return report.Write(r.Dir)
}
