package run

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// What a folder holds of the run that is to go on.

// ErrLost says that a run's checkpoints are all spoilt or gone.
var ErrLost = errors.New("no checkpoint of the run is whole")

// past is where a run goes on.
type past struct {
	checkpoint *folder.Checkpoint // nil: at the beginning
	spoilt     []error            // what is wrong with newer ones
}

// setAside keeps the run of the folder beside it.
func (t *training) setAside() error {
	to, err := folder.SetAside(t.Dir)
	if err == nil && to != "" {
		t.Say("the run that was in %s is in %s now", t.Dir, to)
	}
	return err
}

// lookBack finds the newest checkpoint that is whole. A run that has lines and none is not begun anew:
// its lines would be cut off.
func (t *training) lookBack() (past, error) {
	found, spoilt, err := t.files.folder.Latest()
	if err != nil || found != nil {
		return past{found, spoilt}, err
	}
	lined, err := t.files.folder.Lined()
	if err != nil || !lined {
		return past{nil, spoilt}, err
	}
	if len(spoilt) == 0 {
		spoilt = []error{fmt.Errorf("there is none in %s", t.files.folder.Path("checkpoints"))}
	}
	return past{}, fmt.Errorf("%s: %w, and its ledger has lines:\n%w\n"+
		"hint: put a checkpoint back from a copy; or --restart begins anew, and keeps this folder beside", t.files.folder.Dir, ErrLost, errors.Join(spoilt...))
}

// takeUp loads the checkpoint, and returns where the run's files ended then.
func (t *training) takeUp(p past) (map[string]folder.Mark, error) {
	before := "the run begins anew"
	if p.checkpoint != nil {
		before = "the checkpoint before it is used"
	}
	for _, s := range p.spoilt {
		t.Say("note: %v: %s", s, before)
	}
	if p.checkpoint == nil {
		return nil, nil
	}
	ends, err := t.load(*p.checkpoint)
	if err != nil {
		return nil, err
	}
	t.Say("going on after iteration %d", t.loop.Iteration)
	if len(p.spoilt) > 0 { // they would count as newer ones
		return ends, nil
	}
	return ends, t.files.folder.Tidy(t.keeping())
}
