package training

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// A checkpoint is all that is not a function of the experiment: weights, optimiser and other
// weights in fp32, counters, and where the run's files ended.

const (
	tensorsFile  = "state.safetensors"
	countersFile = "state.json"
)

// counters are what a checkpoint knows beside tensors.
type counters struct {
	Iteration int                `json:"iteration"`
	Updates   int                `json:"updates"`
	Since     int                `json:"since"`              // updates before this stage
	Stage     int                `json:"stage"`              // whose states these are
	Failures  map[string]int     `json:"failures,omitempty"` // iterations in a row, by the reward that failed
	Anchor    int                `json:"anchor"`             // the iteration that a rollback goes back to
	Best      map[string]best    `json:"best,omitempty"`     // or may go back to, by what is held out
	Paces     []int              `json:"paces"`              // steps of every memory
	Reference bool               `json:"reference"`          // whether the reference was ever reset
	History   *advantage.History `json:"history,omitempty"`
	Before    map[string]Measure `json:"before,omitempty"`
	Guided    map[string]Measure `json:"guided,omitempty"`
	Latest    map[string]Measure `json:"latest,omitempty"`
	First     map[string]float64 `json:"first,omitempty"`   // what monitors compare with
	Streaks   map[string]int     `json:"streaks,omitempty"` // how often in a row their rules were broken
	Bins      *bins              `json:"bins,omitempty"`    // of the totals' histogram
	Ends      map[string]int64   `json:"ends"`              // of the files that are appended to
	Sums      map[string]string  `json:"sums,omitempty"`    // of what stands before those ends
	again
	Choice *choiceState `json:"choice,omitempty"`
}

// save writes a checkpoint of what is finished.
func (t *Training) save() error {
	if err := t.keepChoices(); err != nil {
		return err
	}
	if err := t.model.agree(); err != nil {
		return err
	}
	c := counters{Iteration: t.loop.Iteration, Updates: t.loop.Updates, Since: t.loop.Since, History: t.estimator.History, Before: t.before, Guided: t.guided, Latest: t.latest, First: t.first, Streaks: t.streaks, Bins: t.bins, Anchor: t.anchor, Best: t.best, Failures: t.failures, Stage: t.stage.Number, again: t.again, Ends: map[string]int64{}, Sums: map[string]string{}}
	var kept []safetensors.Tensor
	c.Choice, kept = t.choice.state()
	for _, m := range t.loop.Memories {
		c.Paces = append(c.Paces, m.Pace.T)
	}
	for name, l := range t.lines() {
		mark, err := l.End()
		if err != nil {
			return fmt.Errorf("saving %s: %w", name, err)
		}
		c.Ends[name], c.Sums[name] = mark.End, mark.SHA256
	}
	t.stands = c.Iteration
	return t.folder.Save(c.Iteration, t.Checkpoint.Keep, t.held(), func(dir string) error {
		params, mover, others := t.model.learning().State()
		var all []safetensors.Tensor
		for i, p := range params {
			all = append(all, safetensors.FromF32(fmt.Sprintf("weights.%d", i), p.Shape, p.Value.F32()))
		}
		for w, s := range others {
			for i, v := range s.Values {
				all = append(all, safetensors.FromF32(fmt.Sprintf("others.%d.%d", w, i), v.Shape(), v.F32()))
			}
			c.Reference = c.Reference || w == trainer.Reference
		}
		all = append(all, mover.Tensors("optimiser.")...)
		all = append(all, t.model.criticTensors()...)
		all = append(all, kept...)
		if err := safetensors.Write(filepath.Join(dir, tensorsFile), all, nil); err != nil {
			return err
		}
		if a := t.model.adapters; a != nil {
			if err := peft.Write(dir, a, peft.Settings{Rank: t.model.lora.Rank, Alpha: float64(t.model.lora.Alpha)}); err != nil {
				return err
			}
		}
		text, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, countersFile), append(text, '\n'), 0o644)
	})
}

// keep writes a checkpoint that rollbacks go back to.
func (t *Training) keep() error {
	t.anchor = t.loop.Iteration
	return t.save()
}

// held are the checkpoints that may not be deleted.
func (t *Training) held() []int {
	var all []int
	for _, m := range t.Monitors {
		if m.Then == "rollback" {
			all = append(all, t.target(m))
		}
	}
	return all
}

// load is a rank's weights, optimiser and other weights; read is told a name and how many numbers it
// has.
func (m *model) load(f *safetensors.File, read func(name string, n int) ([]float32, error)) error {
	params, mover, others := m.own().State()
	for i, p := range params {
		x, err := read(fmt.Sprintf("weights.%d", i), p.Value.Len())
		if err != nil {
			return err
		}
		p.Value.UploadF32(x)
		p.Updated()
	}
	for w, o := range others {
		for i, v := range o.Values {
			x, err := read(fmt.Sprintf("others.%d.%d", w, i), v.Len())
			if err != nil {
				return err
			}
			v.UploadF32(x)
		}
	}
	if err := mover.Load(f, "optimiser."); err != nil {
		return err
	}
	return m.loadCritic(f, read)
}

func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// load goes back to a checkpoint, and returns where the run's files ended then.
func (t *Training) load(c folder.Checkpoint) (ends map[string]folder.Mark, err error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, countersFile))
	if err != nil {
		return nil, err
	}
	var s counters
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(c.Dir, countersFile), err)
	}
	if s.Iteration != c.Iteration || len(s.Paces) != len(t.loop.Memories) {
		return nil, fmt.Errorf("%s: it is of iteration %d with %d averages, not %d with %d", filepath.Join(c.Dir, countersFile), s.Iteration, len(s.Paces), c.Iteration, len(t.loop.Memories))
	}
	f, err := safetensors.Open(filepath.Join(c.Dir, tensorsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	read := func(name string, n int) ([]float32, error) {
		x, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		out, err := x.Float32(nil)
		if err == nil && len(out) != n {
			err = fmt.Errorf("%s: %s has %d numbers, not %d", f.Path, name, len(out), n)
		}
		return out, err
	}
	if err := t.settle(s.Stage); err != nil { // what follows is that stage's
		return nil, err
	}
	if s.Reference {
		t.model.learning().Params().Follow(trainer.Reference, 0) // so that there is one
	} else if err := t.model.learning().Forget(trainer.Reference); err != nil {
		return nil, err
	}
	for _, m := range t.model.all() {
		if err := m.load(f, read); err != nil {
			return nil, err
		}
	}
	t.loop.Iteration, t.loop.Updates, t.loop.Since = s.Iteration, s.Updates, s.Since
	for i := range s.Paces {
		t.loop.Memories[i].Pace.T = s.Paces[i]
	}
	if (s.History != nil) != (t.estimator.History != nil) {
		return nil, errors.New("the estimator's history does not fit this experiment")
	}
	if s.History != nil {
		*t.estimator.History = *s.History
	}
	if err := t.choice.load(s.Choice, f); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, err)
	}
	t.before = orEmpty(s.Before) // not nil: whoever saved had measured, though nothing may be held out
	t.guided, t.latest, t.first, t.streaks, t.bins = s.Guided, s.Latest, orEmpty(s.First), orEmpty(s.Streaks), s.Bins
	t.anchor, t.again, t.failures, t.stands = s.Anchor, s.again, orEmpty(s.Failures), s.Iteration
	t.best = orEmpty(s.Best)
	ends = map[string]folder.Mark{}
	for name, end := range s.Ends {
		ends[name] = folder.Mark{End: end, SHA256: s.Sums[name]}
	}
	return ends, nil
}

// lines are the files that are appended to and that a checkpoint cuts back.
func (t *Training) lines() map[string]*folder.Lines {
	all := map[string]*folder.Lines{"ledger.jsonl": t.ledger, "samples.jsonl": t.samples}
	if t.transcripts != nil {
		all[TranscriptsFile] = t.transcripts
	}
	return all
}
