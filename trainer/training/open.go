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
	if e.Evaluate.Prompts != "" {
		if t.heldOut, err = prompts.Open(e.Evaluate.Prompts); err != nil {
			return nil, err
		}
	}
	if err := Possible(e); err != nil {
		return nil, err
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
	if err := errors.Join(t.checkConfig(), t.goOn()); err != nil {
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
	ends := map[string]int64{"ledger.jsonl": 0, "samples.jsonl": 0}
	found, spoilt, err := t.folder.Latest()
	if err != nil {
		return err
	}
	for _, s := range spoilt {
		t.Say("note: %v: the checkpoint before it is used", s)
	}
	if found != nil {
		if ends, err = t.load(*found); err != nil {
			return err
		}
		t.Say("going on after iteration %d", t.loop.Iteration)
		if len(spoilt) == 0 { // they would count as newer ones
			if err := t.folder.Tidy(t.Checkpoint.Keep, t.held()); err != nil {
				return err
			}
		}
	}
	if t.ledger, err = t.folder.Lines("ledger.jsonl", ends["ledger.jsonl"]); err != nil {
		return err
	}
	if t.samples, err = t.folder.Lines("samples.jsonl", ends["samples.jsonl"]); err != nil {
		return err
	}
	if t.Episode != nil {
		if t.transcripts, err = t.folder.Lines(TranscriptsFile, ends[TranscriptsFile]); err != nil {
			return err
		}
	}
	if t.timing, err = t.folder.Lines("timing.jsonl", -1); err != nil {
		return err
	}
	return t.spentBefore()
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
