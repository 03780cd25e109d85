package run

import (
	"context"
	"errors"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// The beginning of a run: everything is opened in the order in which mistakes can be told cheaply, prompts and
// rewards before weights. What was opened is closed again where a later part fails.

// open prepares everything, so that mistakes are found before anything is computed.
func open(ctx context.Context, m model.Modality, e *experiment.Experiment, o Options) (t *training, err error) {
	t = &training{Experiment: e, Options: o, ctx: ctx, modality: m, state: newState(), heldAtOnce: model.EvaluatedBytes, monitors: newMonitors(e, o.Dir)}
	t.rewards = rewardSet{failures: map[string]int{}, ctx: ctx, device: &t.device, say: t.Say}
	if t.train, err = m.Prompts(e); err != nil {
		return nil, err
	}
	if err := enough(e, t.train); err != nil {
		return nil, err
	}
	if e.Evaluate.Prompts != "" {
		if t.heldOut, err = e.Open(e.Evaluate.Prompts); err != nil {
			return nil, err
		}
	}
	if err := possible(m, e); err != nil {
		return nil, err
	}
	if o.Restart {
		if err := t.setAside(); err != nil {
			return nil, err
		}
	}
	if t.files.folder, err = folder.Open(o.Dir, o.Resume); err != nil {
		return nil, err
	}
	t.files.newest = -1
	if err := t.begin(); err != nil {
		return nil, errors.Join(err, t.close(err))
	}
	return t, nil
}

// begin opens what is computed with, and goes on after the last checkpoint where there is one.
func (t *training) begin() (err error) {
	defer kernels.Recover(&err)
	past, err := t.lookBack()
	if err != nil {
		return err
	}
	if err := errors.Join(t.checkConfig(), t.checkInputs(), t.goOnWithKernels()); err != nil {
		return err
	}
	t.before = t.free()
	if err := t.rewards.open(t.Rewards, t.Backend); err != nil {
		return err
	}
	if err := t.openModel(); err != nil {
		return err
	}
	if err := t.checkDisk(); err != nil {
		return err
	}
	// From here on the folder holds a run.
	if err := errors.Join(t.keepConfig(), t.manifest()); err != nil {
		return err
	}
	t.beginChoice()
	t.openLoop()
	if err := t.settle(0); err != nil {
		return err
	}
	ends, err := t.takeUp(past)
	if err != nil {
		return err
	}
	if err := t.openLines(ends); err != nil {
		return err
	}
	if err := t.compareMeasures(); err != nil {
		return err
	}
	return t.spentBefore()
}

// openLoop joins the model, the rewards and the choices of prompts and samples to the loop.
func (t *training) openLoop() {
	t.loop = &trainer.Trainer{Policy: timed{t.model, t}, Actor: model.Actor(t.Experiment), Prompts: t.keys, Score: t.judge, Compare: t.compare, Pass: t.skips, Alone: t.alone,
		Order: func(i, n int) []int {
			return t.root().With("shares").Iteration(i).Draw().Perm(n)
		}}
	for _, w := range model.Needed(t.Experiment) {
		if w != trainer.Reference && w <= trainer.Lagged { // which moves the younger ones
			t.loop.Memories = append(t.loop.Memories, trainer.Memory{Weights: w})
		}
	}
}

// close lets go of everything, after a run that ended with an error or without. What a rank that was left
// behind may still use stays as it is.
func (t *training) close(after error) error {
	if exchange.LeftBehind(after) {
		return errors.Join(t.files.closeLines(), t.files.folder.Close())
	}
	var errs []error
	if t.model != nil {
		errs = append(errs, t.model.Close()) // which may have lines to write
	}
	for _, s := range t.rewards.shared {
		s.Close()
	}
	return errors.Join(append(errs, t.files.closeLines(), t.rewards.close(), t.files.folder.Close())...)
}
