package run

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// One iteration: prompts, the trainer's step, what is written of it, evaluation, monitors, a checkpoint. All that
// belongs to an iteration in order is here; each part has a file of its own.

// iterate is one iteration with all that is kept of it. A monitor that stops the run is returned.
func (t *training) iterate() (*fired, error) {
	began := time.Now()
	i := t.loop.Iteration
	t.now = iteration{seconds: map[string]float64{}, busy: began}
	if err := t.prepare(i); err != nil {
		return nil, err
	}
	report, err := t.loop.Step()
	t.now.asking.close() // after a roll that failed
	if err != nil {
		t.now.undo()
		return nil, err
	}
	t.now.seconds["train"] = time.Since(began).Seconds() - t.now.seconds["roll"] - t.now.seconds["score"]
	if t.Part != nil {
		t.Part(Part{"train", t.now.busy, time.Now()})
	}
	if len(report.Samples) > 0 {
		t.learn(report)
		t.guided()
	}
	t.countSkips(report)
	t.spend(time.Since(began).Seconds())
	line := t.line(i, report)
	if err := t.diagnose(line, report); err != nil {
		t.Say("warning: iteration %d: %s could not be written: %v", line.Iteration, diagnosis.File, err)
	}
	if u := line.Updates; len(u) > 0 && u[0].RatioMost != 0 && u[0].RatioMost != 1 && (i == 0 || t.Run.Lag == 0) && (line.Noisy == nil || !line.Noisy.Expected) { // nothing had moved yet
		t.Say("warning: iteration %d: the first update's ratio is %v, not 1: rollout and training disagree", line.Iteration, u[0].RatioMost)
	}
	if every := t.Evaluate.Every; every > 0 && (i+1)%every == 0 || t.last(i+1) {
		if err := t.measure(context.Background(), line, fmt.Sprintf("%06d", i+1)); err != nil {
			return nil, err
		}
	}
	broken := t.monitors.check(line)
	if err := t.record(report, line); err != nil {
		return nil, err
	}
	timing := &ledger.TimingLine{Iteration: line.Iteration, Attempt: line.Attempt, At: float64(time.Now().UnixMilli()) / 1000, Seconds: t.now.seconds}
	t.now.seconds["all"] = time.Since(began).Seconds()
	if err := t.files.timing.Append(timing); err != nil {
		return nil, err
	}
	if t.Report != nil {
		t.Report(line, timing)
	}
	return t.after(line.Iteration, broken)
}

// undone goes back to the state that an iteration finds. What changes before its samples have scores is the place in
// the list of prompts, and which rewards failed; all else changes when nothing can fail for a while any more.
func (t *training) undone() func() {
	place, failures := t.choice.place, maps.Clone(t.rewards.failures)
	return func() { t.choice.place, t.rewards.failures = place, failures }
}

// after does what the monitors that fired say, or keeps a checkpoint where one is due.
func (t *training) after(iteration int, broken []fired) (*fired, error) {
	var stop, back *fired
	t.monitors.alerts.warn(t.Say)
	for k, f := range broken {
		t.Say("monitor: iteration %d: %s", iteration, f.says)
		if t.monitors.due(f) {
			t.monitors.alerts.send(f, iteration)
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
		return t.stop(stop)
	case t.now.last != "":
		return t.stop(&fired{says: t.now.last})
	case back != nil:
		return t.rollBack(*back)
	case t.state.Skips >= mostSkips:
		return nil, failure{fmt.Errorf("iteration %d: no update in %d iterations in a row: %w\nhint: %s", iteration, t.state.Skips, t.now.odd,
			`a monitor of "skipped" with then = "rollback" goes back by itself; or --restart with a smaller optim.lr, or model.precision = "f32"`)}
	case t.better() || iteration%t.Checkpoint.Every == 0 || t.last(iteration):
		return nil, t.keep()
	}
	return nil, nil
}

// prepare sets the sampler and the objective of an iteration.
func (t *training) prepare(i int) error {
	var err error
	if t.now.turn, err = t.Turn(i); err != nil {
		return err
	}
	t.give(&t.now.turn)
	turn := t.now.turn
	t.enter(turn)
	t.now.undo = t.undone()
	if err = t.model.Begin(turn, t.root(), t.state.scale()); err != nil {
		return err
	}
	t.loop.Optim = turn.Optim
	t.loop.Optim.LR *= t.state.scale()
	t.loop.Optim.End *= t.state.scale()
	if t.loop.Optim.Steps == 0 {
		t.loop.Optim.Steps = turn.Run.Iterations * t.loop.Optim.Updates // of the stage
	}
	t.loop.Choice = t.chooses()
	t.loop.Objective, err = t.model.Objective(turn, t.model)
	if reset := turn.Loss.KL.Reset; reset > 0 && i > 0 && i%reset == 0 || turn.Loss.KL.Reference == "stage" && i == turn.First {
		t.model.Params().Follow(trainer.Reference, 0)
	}
	return err
}
