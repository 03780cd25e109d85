package training

import (
	"errors"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// open prepares everything, so that mistakes are found before anything is computed.
func open(e *experiment.Experiment, o Options) (t *Training, err error) {
	t = &Training{Experiment: e, Options: o, first: map[string]float64{}, streaks: map[string]int{}, failures: map[string]int{}, best: map[string]best{}, stands: -1}
	if err = t.openPrompts(); err != nil {
		return nil, err
	}
	if err := enough(e, len(t.train)); err != nil {
		return nil, err
	}
	if e.Evaluate.Prompts != "" {
		if t.heldOut, err = prompts.Open(e.Evaluate.Prompts); err != nil {
			return nil, err
		}
	}
	if err := Possible(e); err != nil {
		return nil, err
	}
	if o.Restart {
		if err := t.setAside(); err != nil {
			return nil, err
		}
	}
	if t.folder, err = folder.Open(o.Dir, o.Resume); err != nil {
		return nil, err
	}
	if err := t.begin(); err != nil {
		return nil, errors.Join(err, t.close(err))
	}
	return t, nil
}

func (t *Training) begin() (err error) {
	defer kernels.Recover(&err)
	past, err := t.lookBack()
	if err != nil {
		return err
	}
	if err := errors.Join(t.checkConfig(), t.checkInputs(), t.goOn()); err != nil {
		return err
	}
	if err := t.openRewards(); err != nil {
		return err
	}
	if err := t.openProgram(); err != nil {
		return err
	}
	if t.model, err = openRanks(t.Experiment, t.Options, t.train, t.heldOut); err != nil {
		return err
	}
	if t.Rolling != nil {
		t.tell()
	}
	if err := t.room(); err != nil {
		return err
	}
	// From here on the folder holds a run.
	if err := errors.Join(t.keepConfig(), t.manifest()); err != nil {
		return err
	}
	t.beginChoice()
	policy := trainer.Policy(t.model.learning())
	if t.album != nil {
		policy = shelf{policy, t}
	}
	t.loop = &trainer.Trainer{Policy: roller{policy, t}, Prompts: t.keys, Score: t.ask, Compare: t.compare, Pass: t.pass,
		Order: func(i, n int) []int {
			return t.root().With("shares").Iteration(i).Draw().Perm(n)
		}}
	for _, w := range needed(t.Experiment) {
		if w != trainer.Reference {
			t.loop.Memories = append(t.loop.Memories, trainer.Memory{Weights: w})
		}
	}
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
	return t.spentBefore()
}

// openLines opens the files that are appended to, cut back to where a checkpoint saw them end.
func (t *Training) openLines(ends map[string]folder.Mark) (err error) {
	lines := func(name string) *folder.Lines {
		if err != nil {
			return nil
		}
		var l *folder.Lines
		if l, err = t.folder.Lines(name, ends[name]); err == nil && l.Changed() != nil {
			t.Say("warning: %v; training goes on, but the curves and the page may be wrong there", l.Changed())
		}
		return l
	}
	t.ledger, t.samples = lines("ledger.jsonl"), lines("samples.jsonl")
	if t.Episode != nil {
		t.transcripts = lines(TranscriptsFile)
	}
	if err != nil {
		return err
	}
	t.timing, err = t.folder.AllLines("timing.jsonl")
	return err
}

// close lets go of everything, after a run that ended with an error or without. What a rank that was left
// behind may still use stays as it is.
func (t *Training) close(after error) error {
	var errs []error
	for _, l := range []*folder.Lines{t.ledger, t.samples, t.transcripts, t.timing} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if exchange.LeftBehind(after) {
		return errors.Join(append(errs, t.folder.Close())...)
	}
	if t.model != nil {
		errs = append(errs, t.model.close())
	}
	return errors.Join(append(errs, t.closeRewards(), t.folder.Close())...)
}
