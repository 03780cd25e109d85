package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// A run may go on with another [evaluate]. What was measured before is then of other samples, and a difference of the
// two is no gain. So a checkpoint says what its measures were made with; where that has changed,
//
//	the start         is measured anew, by the model without its adapter, where that is how training began; otherwise
//	                  there is no measure of it, and no gain
//	the best          of the evaluations is forgotten, and so is what monitors of held-out numbers compare with
//	sheets and lines  of earlier evaluations are kept: sheets under another name, lines with a lower "measuring"
//
// Which weights are evaluated (evaluate.weights) is no other measure of the start, where all weights are one.

// measuredWith is what held-out samples are made and scored with, beside what no run can go on with another value of.
func (t *training) measuredWith() (map[string]string, error) {
	all := map[string]string{}
	for _, kv := range t.Settings() {
		switch kv[0] {
		case "evaluate.every", "evaluate.prompts":
		default:
			if strings.HasPrefix(kv[0], "evaluate.") {
				all[kv[0]] = kv[1]
			}
		}
	}
	sum, err := sumOf(t.heldOut)
	all["evaluate.prompts"] = sum
	return all, err
}

// compareMeasures finds out, as a run goes on, whether what was measured can be compared with what will be.
func (t *training) compareMeasures() error {
	now, err := t.measuredWith()
	was := t.state.MeasuredWith
	if t.state.MeasuredWith = now; err != nil {
		return err
	}
	if was == nil && t.files.heldOutSum != "" { // checkpoints of before this was kept
		was = map[string]string{"evaluate.prompts": t.files.heldOutSum}
	}
	var changed []string
	for _, key := range slices.Sorted(maps.Keys(was)) {
		switch old := was[key]; {
		case old == now[key]:
		case key == "evaluate.prompts":
			changed = append(changed, "the held-out prompts are others")
		case key == "evaluate.guided":
			t.Say("warning: evaluate.guided was %s, and is %s: the start was not measured with that guidance, and there is no gain under it", old, now[key])
			t.state.Guided = nil
		case key == "evaluate.weights":
			t.Say("note: evaluate.weights was %s, and is %s: what is measured from now on is of other weights", old, now[key])
			t.monitors.forgetHeldOut()
		default:
			changed = append(changed, fmt.Sprintf("%s was %s, and is %s", key, old, now[key]))
		}
	}
	if len(changed) == 0 || len(t.state.Before) == 0 && t.state.Measured == 0 {
		return nil
	}
	what := "there is no measure of the start any more, and no gain: the weights that training began with are not kept"
	if t.startKept() {
		what = "the start is measured anew"
	}
	t.Say("warning: %s: what was measured before cannot be compared with what will be; %s", strings.Join(changed, ", "), what)
	t.state.Measuring++
	t.state.Before, t.state.Guided, t.state.Latest, t.state.Measured = nil, nil, nil, 0
	t.monitors.forgetHeldOut()
	return t.setSheetsAside()
}

// carryMeasures keeps, over a rollback to a checkpoint of before a change, what has been measured since it.
func (t *training) carryMeasures(from state) {
	t.state.MeasuredWith = from.MeasuredWith
	if t.state.Measuring == from.Measuring {
		return
	}
	t.state.Measuring, t.state.Before, t.state.Guided = from.Measuring, from.Before, from.Guided
	t.state.Latest, t.state.Measured = map[string]ledger.Measure{}, 0
	t.monitors.forgetHeldOut()
	t.monitors.compareStart(t.state.Before)
}

// startKept reports whether the model without its adapter is what training began with.
func (t *training) startKept() bool {
	_, adapted := t.Model.Trained()
	return adapted && t.Model.Adapter == "" && !t.model.Keeps(trainer.Reference)
}

// setSheetsAside renames the sheets of earlier evaluations.
func (t *training) setSheetsAside() error {
	for _, kind := range []string{"heldout", "guided"} {
		sheets, err := filepath.Glob(t.files.folder.Path("images/" + kind + "_*.png"))
		for _, s := range sheets {
			err = errors.Join(err, os.Rename(s, filepath.Join(filepath.Dir(s), fmt.Sprintf("earlier%d_%s", t.state.Measuring, filepath.Base(s)))))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("renaming sheets of earlier evaluations: %w", err)
		}
	}
	return nil
}

// measureStart measures what training begins with, or after a change of what is measured, began with.
func (t *training) measureStart(ctx context.Context) error {
	anew := t.loop.Iteration > 0
	if t.evaluated = nil; anew {
		start := trainer.Reference
		t.evaluated = &start
		defer func() { t.evaluated = nil }()
	}
	t.state.Before = map[string]ledger.Measure{}
	if !anew || t.startKept() {
		if err := t.measure(ctx, nil, "before"); err != nil {
			t.state.Before = nil
			return err
		}
		t.state.Before = t.state.Latest
		if t.Evaluate.Guided > 0 {
			var err error
			if t.state.Guided, err = t.guide(ctx, "before"); err != nil {
				return err
			}
		}
	}
	t.monitors.compareStart(t.state.Before)
	if anew {
		t.state.Latest, t.state.Measured = map[string]ledger.Measure{}, 0
		return t.save()
	}
	t.better()
	return t.keep()
}
