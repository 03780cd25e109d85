package ablate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/view/report"
)

// A Place is a trial's device: opened for it, and closed with the trial's error.
type Place interface {
	Into(o run.Options) run.Options
	Close(after error) error
}

// Runner holds the functions that run a grid.
type Runner struct {
	// Devices each run a trial at a time, side by side. None: one trial at a time, where its file says.
	Devices []string
	// Open opens a trial's device; dir is its folder, which holds its earlier iterations.
	Open    func(e *experiment.Experiment, dir string) (Place, error)
	Version string
	// One trial at a time calls the functions below.
	Logf func(format string, args ...any)
	// Report is called for every iteration, with its trial, the n-th of all.
	Report func(c *Cell, r *Trial, n, all int, line *ledger.Line, timing *ledger.TimingLine)
	// Progress is called with the iterations done of all.
	Progress func(done, all int)
}

// job is a trial to be run, the n-th of all.
type job struct {
	*Trial
	cell *Cell
	n    int
}

func (j job) String() string { return fmt.Sprintf("%s, seed %d", j.cell.Name, j.Seed) }

// crew is a running grid: trials to run, and results of the others.
type crew struct {
	g       *Grid
	w       Runner
	ctx     context.Context
	all     int
	lock    sync.Mutex // guards the fields below and the output
	changed *sync.Cond
	left    []job
	opening int // jobs that may come back, since their device may not open
	reached map[int]int
	errs    map[int]error
	lost    []error // devices that are left out
}

// Run runs every trial that is not finished, seed by seed, so that a grid that is stopped early has results of every
// cell. With several devices as many trials are under way, each on a device of its own that is opened for it: a trial's
// bits do not depend on other trials. A trial that fails is reported and skipped; the others go on. A device that can
// no longer be opened is left out, and its trial goes to another. Where ctx is cancelled, the trials under way are
// saved and the error is ctx's.
func (g *Grid) Run(ctx context.Context, w Runner) error {
	c := &crew{g: g, w: w, ctx: ctx, all: len(g.Cells) * max(1, g.Seeds), reached: map[int]int{}, errs: map[int]error{}}
	c.changed = sync.NewCond(&c.lock)
	n := 0
	for k := range max(1, g.Seeds) {
		for _, cell := range g.Cells {
			n++
			c.left = append(c.left, job{cell.Trials[k], cell, n})
		}
	}
	devices := w.Devices
	if len(devices) == 0 {
		devices = []string{""}
	}
	var all sync.WaitGroup
	for _, d := range devices {
		all.Go(func() { c.work(d) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil && (len(c.left) > 0 || c.stopped()) {
		return err
	}
	var errs []error
	for n := 1; n <= c.all; n++ {
		errs = append(errs, c.errs[n])
	}
	if len(c.left) > 0 {
		errs = append(errs, fmt.Errorf("%d runs were not begun, since no device is left: %w", len(c.left), errors.Join(c.lost...)))
	}
	return errors.Join(errs...)
}

// stopped reports whether a trial was interrupted.
func (c *crew) stopped() bool {
	for _, cell := range c.g.Cells {
		for _, r := range cell.Trials {
			if !r.done && r.Err == nil {
				return true
			}
		}
	}
	return false
}

// work runs one trial after another on a device.
func (c *crew) work(device string) {
	for {
		j, ok := c.next()
		if !ok {
			return
		}
		if !c.run(j, device) {
			return
		}
	}
}

// next takes the next trial, and reports one that was finished before.
func (c *crew) next() (job, bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for {
		for len(c.left) == 0 && c.opening > 0 {
			c.changed.Wait()
		}
		if len(c.left) == 0 || c.ctx.Err() != nil {
			return job{}, false
		}
		j := c.left[0]
		c.left = c.left[1:]
		if !j.done {
			c.opening++
			return j, true
		}
		c.w.Logf("[%d/%d] %s: finished before", j.n, c.all, j)
		c.reach(j, j.Iterations())
	}
}

// reach notes how far a trial is.
func (c *crew) reach(j job, iterations int) {
	c.reached[j.n] = iterations
	done := 0
	for _, n := range c.reached {
		done += n
	}
	if c.w.Progress != nil {
		c.w.Progress(done, c.all*j.Iterations())
	}
}

// run runs a trial, and reports whether its device can go on with others.
func (c *crew) run(j job, device string) bool {
	e := *j.experiment
	if device != "" {
		e.Run.Device, j.Device = device, device
	}
	place, err := c.w.Open(&e, j.Dir)
	c.lock.Lock()
	c.opening--
	c.changed.Broadcast()
	if err != nil {
		c.left, c.lost = append([]job{j}, c.left...), append(c.lost, err)
		c.w.Logf("%s is left out: %v", e.Run.Device, err)
		c.lock.Unlock()
		return false
	}
	c.lock.Unlock()
	err = c.one(j, &e, place)
	if failed := place.Close(err); err == nil {
		err = failed
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	switch {
	case err == nil:
		c.reach(j, j.Iterations())
	case errors.Is(err, errInterrupted), c.ctx.Err() != nil:
	default:
		j.Err = err
		c.w.Logf("[%d/%d] %s failed: %v", j.n, c.all, j, err)
		c.errs[j.n] = fmt.Errorf("%s: %w", j, err)
		if exchange.LeftBehind(err) {
			c.lost = append(c.lost, fmt.Errorf("%s hangs", e.Run.Device))
		}
	}
	return !exchange.LeftBehind(err)
}

// errInterrupted says that a trial was saved before its end.
var errInterrupted = errors.New("interrupted")

// one runs or goes on with a trial, and writes its page.
func (c *crew) one(j job, e *experiment.Experiment, place Place) error {
	say := func(format string, args ...any) {
		c.lock.Lock()
		defer c.lock.Unlock()
		c.w.Logf("[%d/%d%s] "+format, append([]any{j.n, c.all, j.on()}, args...)...)
	}
	say("%s, in %s", j, j.Dir)
	result, err := run.Run(c.ctx, e, place.Into(run.Options{Dir: j.Dir, Resume: j.resume, Version: c.w.Version, Seconds: c.g.Budget.Seconds, Logf: say,
		Report: func(line *ledger.Line, timing *ledger.TimingLine) {
			c.lock.Lock()
			defer c.lock.Unlock()
			if c.w.Report != nil {
				c.w.Report(j.cell, j.Trial, j.n, c.all, line, timing)
			}
			c.reach(j, line.Iteration)
		}}))
	if err != nil {
		return err
	}
	if result.Status == ledger.Interrupted {
		return errInterrupted
	}
	j.done = true
	return report.Write(j.Dir)
}

// on says where a trial runs, among several devices.
func (r *Trial) on() string {
	if r.Device == "" {
		return ""
	}
	return " " + r.Device
}
