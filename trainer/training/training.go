package training

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/album"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// Options are what a run needs of its caller.
type Options struct {
	Dir     string
	Resume  bool
	Restart bool // begin anew, and keep the run that is in the folder beside it
	Backend kernels.Backend
	// Further are more backends, each with a rank of its own beside Backend's; Wire is between all of
	// them, and nil is host memory (ranks.go).
	Further []kernels.Backend
	Wire    exchange.Wire
	Version string                           // of the program, for the manifest
	Say     func(format string, args ...any) // a line for people
	Seconds float64                          // after which a run ends though more iterations were asked for; 0: never
	// Rolling hears how much of an iteration's samples is made, in passes of the network; so many
	// iterations are finished.
	Rolling func(iteration, done, all int)
	// Report hears of every finished iteration.
	Report func(line *Line, timing *TimingLine)
}

// Training is an experiment at work.
type Training struct {
	*experiment.Experiment
	Options
	folder         *folder.Folder
	model          *model
	loop           *trainer.Trainer
	train, heldOut []prompts.Prompt
	album          []album.Page // of train, where pictures are learned from that exist
	judges         []judged
	estimator      advantage.Estimator // of the stage under way
	stage          experiment.Turn     // the first turn since it began

	ledger, samples, timing *folder.Lines
	transcripts             *folder.Lines      // of a model that speaks
	before, latest          map[string]Measure // held-out measures
	guided                  map[string]Measure // those of the start under guidance
	measured                int                // the iteration of the latest
	first                   map[string]float64 // what monitors compare with
	streaks                 map[string]int     // how often in a row their rules were broken
	bins                    *bins              // of the totals' histogram
	anchor                  int                // the iteration that a rollback goes back to
	best                    map[string]best    // or may go back to, by what is held out
	again                   again
	stands                  int            // the iteration of the newest checkpoint, -1 for none
	failures                map[string]int // iterations in a row, by the reward that failed

	choice  choice
	ctx     context.Context // of the run: waiting ends with it
	turn    experiment.Turn // of the iteration under way
	check   *Check          // before its samples are learned from
	halt    string          // why it is to be the last
	few     string          // why too few have a score
	scored  *scores         // and what rewards said in it
	likely  Spread          // of the likeliest answers' totals (remax)
	seconds map[string]float64
	chosen  []byte  // the backend's choices, as they are in the folder
	spent   float64 // seconds of all iterations, without evaluations
	over    bool    // whether that is all there is
}

// Run runs an experiment to its end, or until ctx is cancelled: then the iteration under way is
// finished and saved.
func Run(ctx context.Context, e *experiment.Experiment, o Options) (*Result, error) {
	t, err := open(e, o)
	if err != nil {
		return nil, err
	}
	t.ctx = ctx
	result, err := t.guarded(ctx)
	return result, errors.Join(err, t.close(err))
}

// guarded is run, where a device's failure is an error as any other: what was saved stands, and whoever
// runs other experiments can go on.
func (t *Training) guarded(ctx context.Context) (result *Result, err error) {
	defer func() {
		if lost := kernels.DeviceError(nil); errors.As(err, &lost) {
			result, err = nil, fmt.Errorf("%w\nhint: %s", err, t.remains())
		}
	}()
	defer kernels.Recover(&err)
	return t.run(ctx)
}

// remains says where a run goes on that a device's failure ended.
func (t *Training) remains() string {
	found, _, err := t.folder.Latest()
	if err != nil || found == nil {
		return "nothing was saved yet; --resume begins again"
	}
	return fmt.Sprintf("iteration %d is saved, --resume goes on from there", found.Iteration)
}

// run is the whole run: measure, iterate, measure.
func (t *Training) run(ctx context.Context) (*Result, error) {
	switch done, err := t.sift(ctx); {
	case err != nil:
		return nil, err
	case !done: // and nothing to save: what was measured is in its file
		r := &Result{Status: Interrupted}
		return r, t.folder.WriteJSON("result.json", r)
	}
	if t.before == nil {
		if err := t.measure(ctx, nil, "before"); err != nil {
			return nil, err
		}
		t.before = t.latest
		if t.Evaluate.Guided > 0 {
			var err error
			if t.guided, err = t.guide(ctx, "before"); err != nil {
				return nil, err
			}
		}
		for name, m := range t.before {
			t.first["heldout."+name] = m.Mean // what monitors compare with
		}
		t.better()
		if err := t.keep(); err != nil {
			return nil, err
		}
	}
	for t.loop.Iteration < t.Run.Iterations && !t.over {
		if ctx.Err() != nil {
			return t.end(Interrupted, "")
		}
		stop, err := t.iterate()
		switch {
		case errors.Is(err, errWaited):
			return t.end(Interrupted, "")
		case err != nil:
			return nil, t.failed(err)
		}
		if stop != nil {
			return t.end(Stopped, stop.says)
		}
	}
	if t.loop.Iteration < t.Run.Iterations {
		return t.end(Finished, outOfTime)
	}
	return t.end(Finished, "")
}

// iterate is one iteration with all that is kept of it. A monitor that stops the run is returned.
func (t *Training) iterate() (*fired, error) {
	began := time.Now()
	i := t.loop.Iteration
	t.seconds, t.scored = map[string]float64{}, nil
	if err := t.prepare(i); err != nil {
		return nil, err
	}
	report, err := t.loop.Step()
	if err != nil {
		return nil, err
	}
	t.seconds["train"] = time.Since(began).Seconds() - t.seconds["roll"] - t.seconds["score"]
	t.learn(report)
	t.spend(time.Since(began).Seconds())
	line := t.line(i, report)
	if u := line.Updates; len(u) > 0 && u[0].RatioMost != 0 && u[0].RatioMost != 1 && (line.Noisy == nil || !line.Noisy.Expected) { // nothing had moved yet
		t.Say("warning: iteration %d: the first update's ratio is %v, not 1: rollout and training disagree", line.Iteration, u[0].RatioMost)
	}
	if every := t.Evaluate.Every; every > 0 && (i+1)%every == 0 || t.last(i+1) {
		if err := t.measure(context.Background(), line, fmt.Sprintf("%06d", i+1)); err != nil {
			return nil, err
		}
	}
	broken := t.watch(line)
	if err := t.record(report, line); err != nil {
		return nil, err
	}
	timing := &TimingLine{Iteration: line.Iteration, Seconds: t.seconds}
	t.seconds["all"] = time.Since(began).Seconds()
	if err := t.timing.Append(timing); err != nil {
		return nil, err
	}
	if t.Report != nil {
		t.Report(line, timing)
	}
	return t.after(line.Iteration, broken)
}

// after does what the monitors that fired say, or keeps a checkpoint where one is due.
func (t *Training) after(iteration int, broken []fired) (*fired, error) {
	var stop, back *fired
	for k, f := range broken {
		t.Say("monitor: iteration %d: %s", iteration, f.says)
		switch f.Then {
		case "stop":
			stop = &broken[k]
		case "rollback":
			back = &broken[k]
		}
	}
	switch {
	case stop != nil:
		return stop, t.save()
	case t.halt != "":
		return &fired{says: t.halt}, t.save()
	case back != nil:
		return t.rollBack(*back)
	case t.better() || iteration%t.Checkpoint.Every == 0 || t.last(iteration):
		return nil, t.keep()
	}
	return nil, nil
}

// prepare sets the sampler and the objective of an iteration.
func (t *Training) prepare(i int) error {
	var err error
	if t.turn, err = t.Turn(i); err != nil {
		return err
	}
	t.enter(t.turn)
	t.check, t.halt, t.few = nil, "", ""
	if err = t.model.sample(t.turn, t.root(), t.again.scale()); err != nil {
		return err
	}
	t.loop.Optim = t.turn.Optim
	t.loop.Optim.LR *= t.again.scale()
	t.loop.Optim.End *= t.again.scale()
	if t.loop.Optim.Steps == 0 {
		t.loop.Optim.Steps = t.turn.Run.Iterations * t.loop.Optim.Updates // of the stage
	}
	t.loop.Choice = t.chooses()
	t.loop.Objective, err = t.objective(t.turn)
	if reset := t.turn.Loss.KL.Reset; reset > 0 && i > 0 && i%reset == 0 {
		t.model.learning().Params().Follow(trainer.Reference, 0)
	}
	return err
}
