package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// iteration is one iteration's settings, and the key of its draws.
type iteration struct {
	number   int // from 0
	settings experiment.Settings
	root     rng.Key
	attempt  int // rollbacks before it
}

// samplesOf are the samples of an iteration's prompts.
func (it iteration) samplesOf(list []int) []trainer.Key {
	var all []trainer.Key
	for _, p := range list {
		for k := range it.settings.Samples() {
			all = append(all, trainer.Key{Iteration: it.number, Prompt: p, Sample: k})
		}
	}
	return all
}

// attempt counts rollbacks, which do not take it back.
type attempt struct {
	Attempt   int            `json:"attempt,omitempty"`
	LRScale   float64        `json:"lr_scale,omitempty"`  // 0: 1
	Rollbacks map[string]int `json:"rollbacks,omitempty"` // by the monitors' rules
}

// scale is the factor of learning rates.
func (a attempt) scale() float64 {
	if a.LRScale == 0 {
		return 1
	}
	return a.LRScale
}

// root is the key of everything that is drawn in the attempt.
func (a attempt) root(seed int) rng.Key {
	key := rng.New(uint64(seed))
	if a.Attempt > 0 {
		key = key.Attempt(a.Attempt)
	}
	return key
}

// One iteration: prompts -> samples -> scores -> advantages -> report -> line. The trainer's step makes the report;
// then the line is written, held-out prompts are measured, monitors are checked, and a checkpoint is kept.

// iterate makes one iteration. A monitor that stops the run is returned.
func (l *loop) iterate() (*fired, error) {
	l.clock.start()
	it, err := l.begin()
	if err != nil {
		return nil, err
	}
	undo := l.undo()
	r, report, err := l.step(it)
	for misled(err) { // nothing was learned from these samples
		undo()
		r, report, err = l.step(it)
	}
	if err != nil {
		undo()
		return nil, err
	}
	l.clock.trained()
	if len(report.Samples) > 0 {
		l.selection.learn(it, report)
		l.selection.learnHints(r.scored)
	}
	l.countSkips(report)
	l.clock.spend(time.Since(l.clock.began).Seconds())
	line := l.line(it, report, r)
	if err := l.diagnose(it, r, line, report); err != nil {
		l.Logf("warning: iteration %d: %s could not be written: %v", line.Iteration, diagnosis.File, err)
	}
	if u := line.Updates; len(u) > 0 && u[0].RatioMost != 0 && u[0].RatioMost != 1 && (it.number == 0 || l.Run.Lag == 0) && (line.Noisy == nil || !line.Noisy.Expected) { // no weight had moved yet
		l.Logf("warning: iteration %d: the first update's ratio is %v, not 1: rollout and training disagree", line.Iteration, u[0].RatioMost)
	}
	if every := l.Evaluate.Every; every > 0 && line.Iteration%every == 0 || l.last(line.Iteration) {
		if err := l.evaluation.measure(context.Background(), l.subject(), line, fmt.Sprintf("%06d", line.Iteration)); err != nil {
			return nil, err
		}
	}
	broken := l.monitors.check(line)
	if err := l.record.append(it, l.model, report, r.scored, line, l.train); err != nil {
		return nil, err
	}
	timing := &ledger.TimingLine{Iteration: line.Iteration, Attempt: line.Attempt, At: float64(time.Now().UnixMilli()) / 1000, Seconds: l.clock.seconds}
	timing.Seconds["all"] = time.Since(l.clock.began).Seconds()
	if err := l.record.timing.Append(timing); err != nil {
		return nil, err
	}
	if l.Report != nil {
		l.Report(line, timing)
	}
	return l.after(line.Iteration, broken, r.last, report.Odd)
}

// step rolls, scores and learns.
func (l *loop) step(it iteration) (*rollout, *trainer.Report, error) {
	if err := l.prepare(it); err != nil {
		return nil, nil, err
	}
	r := l.rollout(it)
	l.connect(it, r)
	report, err := l.trainer.Step()
	r.sent.close() // after a roll that failed
	return r, report, err
}

// begin is the next iteration.
func (l *loop) begin() (iteration, error) {
	settings, err := l.Iteration(l.trainer.Iteration)
	if err != nil {
		return iteration{}, err
	}
	l.selection.giveHints(&settings)
	l.enterStage(settings)
	l.current, l.progress = iteration{l.trainer.Iteration, settings, l.root(), l.attempt.Attempt}, progress{}
	return l.current, nil
}

// undo goes back to the state that an iteration finds, so that a checkpoint can be written, or the iteration begins
// anew. Until its first update an iteration changes the place in the list of prompts, the rewards' failures, the
// estimator's history and the buffer; all else changes after the last step that may fail for a while.
func (l *loop) undo() func() {
	place, failures, kept, history := l.selection.place, maps.Clone(l.rewards.failures), slices.Clone(l.selection.buffer.Kept), l.estimator.History.Clone()
	return func() {
		l.selection.place, l.rewards.failures, l.selection.buffer.Kept = place, maps.Clone(failures), slices.Clone(kept)
		if history != nil {
			*l.estimator.History = *history.Clone()
		}
	}
}

// prepare sets the model's sampler, the optimiser and the objective.
func (l *loop) prepare(it iteration) (err error) {
	settings, scale := it.settings, l.attempt.scale()
	if err = l.model.Begin(settings, it.root, scale); err != nil {
		return err
	}
	o := settings.Optim
	o.LR *= scale
	o.End *= scale
	if o.Steps == 0 {
		o.Steps = settings.Run.Iterations * o.Updates // of the stage
	}
	l.trainer.Optim = o
	l.trainer.Objective, err = l.model.Objective(settings, l.model)
	if reset := settings.Loss.KL.Reset; reset > 0 && it.number > 0 && it.number%reset == 0 || settings.Loss.KL.Reference == "stage" && it.number == settings.First {
		l.model.Params().Follow(trainer.Reference, 0)
	}
	return err
}

// connect makes an iteration's samples, scores and advantages those of the trainer's step.
func (l *loop) connect(it iteration, r *rollout) {
	t := l.trainer
	t.Policy = r
	t.Prompts = func(int) []trainer.Key { return l.selection.keys(it) }
	t.Score = r.score
	t.Compare = func(samples []trainer.Sample, totals []float64) ([]float64, error) {
		if it.settings.Supervised() {
			return slices.Repeat([]float64{1}, len(samples)), nil
		}
		b, err := r.batch(samples, totals)
		if err != nil {
			return nil, err
		}
		return l.model.Credit(samples, totals, b, l.estimator)
	}
	t.Selection = l.selection.choice(it)
	t.Pass = r.pass
	t.Alone = func() bool { return r.last == "" && it.settings.Imitates() }
	t.Order = func(i, n int) []int { return it.root.With("shares").Iteration(i).Draw().Perm(n) }
}

// line is an iteration's line of the ledger.
func (l *loop) line(it iteration, report *trainer.Report, r *rollout) *ledger.Line {
	line := l.record.line(it, report, r.scored, l.train)
	line.Measuring = l.evaluation.Measuring
	if len(report.Samples) == 0 {
		return line
	}
	l.model.Describe(line, report)
	r.scored.controls.line(line)
	l.selection.describe(it, line, report)
	line.Check, line.Passes = r.check, l.model.Passes()
	for _, u := range report.Updates {
		line.Updates = append(line.Updates, ledger.UpdateOf(u.Loss, u.Norm, u.Rate, u.Metrics))
	}
	return line
}

// mostSkips is the number of iterations in a row without an update, since numbers are not finite, that end a run.
const mostSkips = 5

// countSkips warns of updates that were skipped, since their numbers are infinite or none, and counts iterations
// without an update.
func (l *loop) countSkips(r *trainer.Report) {
	if r.Skipped == 0 || len(r.Updates) > 0 {
		l.skips = 0
	} else {
		l.skips++
	}
	if r.Skipped > 0 {
		l.Logf("warning: iteration %d: %d of its updates skipped, the weights stay as they are (%d of at most %d such iterations in a row): %v",
			l.trainer.Iteration, r.Skipped, l.skips, mostSkips, r.Odd)
	}
}

// after carries out the actions of monitors that fired, or keeps a checkpoint where one is due. An iteration may be
// the last for a reason.
func (l *loop) after(iteration int, broken []fired, last string, odd error) (*fired, error) {
	var stop, back *fired
	l.monitors.alerts.warn(l.Logf)
	for k, f := range broken {
		l.Logf("monitor: iteration %d: %s", iteration, f.says)
		if l.monitors.due(f) {
			l.monitors.alerts.send(f, iteration)
		}
		switch f.Then {
		case "stop":
			stop = &broken[k]
		case "rollback":
			back = &broken[k]
		}
	}
	switch {
	case stop != nil:
		return l.stop(stop)
	case last != "":
		return l.stop(&fired{says: last})
	case back != nil:
		return l.rollBack(*back)
	case l.skips >= mostSkips:
		return nil, failure{fmt.Errorf("iteration %d: no update in %d iterations in a row: %w\nhint: %s", iteration, l.skips, odd,
			`a monitor of "skipped" with then = "rollback" goes back by itself; or --restart with a smaller optim.lr, or model.precision = "f32"`)}
	case l.better() || iteration%l.Checkpoint.Every == 0 || l.last(iteration):
		return nil, l.keep()
	}
	return nil, nil
}
