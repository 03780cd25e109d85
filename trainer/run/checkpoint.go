package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// A checkpoint is all that is not a function of the experiment: weights, optimiser and other
// weights in fp32, counters, and where the run's files ended.

const stateFile = "state.json"

// state is a checkpoint without tensors. loop.snapshot takes it from the structs that own its fields, and loop.load
// gives it back to them.
type state struct {
	Iteration int                `json:"iteration"`
	Updates   int                `json:"updates"`
	Since     int                `json:"since"`              // updates before this stage
	Stage     int                `json:"stage"`              // of the states of optimisers and averages
	Failures  map[string]int     `json:"failures,omitempty"` // iterations in a row, by the reward that failed
	Skips     int                `json:"skips,omitempty"`    // iterations in a row without an update, since numbers were not finite
	Anchor    int                `json:"anchor"`             // the iteration that a rollback goes back to
	Best      map[string]best    `json:"best,omitempty"`     // or may go back to, by held-out numbers
	Paces     []int              `json:"paces"`              // steps of every memory
	Reference bool               `json:"reference"`          // whether the reference was ever reset
	History   *advantage.History `json:"history,omitempty"`
	measures
	watched
	Bins *ledger.Bins      `json:"bins,omitempty"` // of the totals' histogram
	Ends map[string]int64  `json:"ends"`           // of the files that are appended to
	Sums map[string]string `json:"sums,omitempty"` // of these files up to their ends
	attempt
	Selection *selectionState   `json:"choice,omitempty"`
	Guidance  *prompts.Guidance `json:"guidance,omitempty"` // the part of solutions that is given ([episode.guided])
}

// checkpoints are those of a run's folder.
type checkpoints struct {
	folder   *folder.Folder
	keep     int    // checkpoint.keep
	newest   int    // the iteration of the newest one, -1 for none
	regular  int    // the iteration of the last regular one, which rollbacks go back to; each holds it
	products []byte // the backend's choices of kernels, as they are in the folder
	say      say
}

// write writes one, and deletes those that need not be kept. held ones stay.
func (c *checkpoints) write(s state, tensors []safetensors.Tensor, adapters func(dir string) error, held []int) error {
	c.newest = s.Iteration
	return c.folder.Save(s.Iteration, c.keeping(held), func(dir string) error {
		if err := safetensors.Write(filepath.Join(dir, model.TensorsFile), tensors, nil); err != nil {
			return err
		}
		if err := adapters(dir); err != nil {
			return err
		}
		text, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'), 0o644)
	})
}

// keeping says which checkpoints stay. One that an interruption or a failure left between two regular ones goes when
// the run has come further, so that a stopped run leaves the files of one that never was.
func (c *checkpoints) keeping(held []int) folder.Keeping {
	return folder.Keeping{Last: c.keep, Held: held, Passing: func(c folder.Checkpoint) bool {
		text, err := os.ReadFile(filepath.Join(c.Dir, stateFile))
		var s struct {
			Iteration int `json:"iteration"`
			Anchor    int `json:"anchor"`
		}
		return err == nil && json.Unmarshal(text, &s) == nil && s.Anchor != s.Iteration
	}}
}

func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// readState reads a checkpoint without its tensors, of a run with this many moving averages of weights.
func readState(c folder.Checkpoint, averages int) (s state, err error) {
	path := filepath.Join(c.Dir, stateFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if s.Iteration != c.Iteration || len(s.Paces) != averages {
		return s, fmt.Errorf("%s: it is of iteration %d with %d averages, not %d with %d", path, s.Iteration, len(s.Paces), c.Iteration, averages)
	}
	s.Before = orEmpty(s.Before) // not nil: it was measured, though nothing may be held out
	s.First, s.Streaks, s.Failures, s.Best = orEmpty(s.First), orEmpty(s.Streaks), orEmpty(s.Failures), orEmpty(s.Best)
	return s, nil
}

// room checks the disk's room before anything is computed: for all checkpoints of this size that will be there, and the
// one that is written beside them.
func (c *checkpoints) room(bytes int64) error {
	all, err := c.folder.All()
	if err != nil {
		return err
	}
	return c.folder.Room((bytes + 1<<20) * int64(max(1, c.keep+1-len(all))))
}

// ErrLost says that a run's checkpoints are all spoilt or gone.
var ErrLost = errors.New("no checkpoint of the run is whole")

// resumption is where a run goes on.
type resumption struct {
	checkpoint *folder.Checkpoint // nil: at the beginning
	spoilt     []error            // the mistakes of newer ones
}

// find finds the newest checkpoint that is whole. A run that has lines and none is not begun anew:
// its lines would be cut off.
func (c *checkpoints) find() (resumption, error) {
	found, spoilt, err := c.folder.Latest()
	if err != nil || found != nil {
		return resumption{found, spoilt}, err
	}
	lined, err := c.folder.Lined()
	if err != nil || !lined {
		return resumption{nil, spoilt}, err
	}
	if len(spoilt) == 0 {
		spoilt = []error{fmt.Errorf("there is none in %s", c.folder.Path("checkpoints"))}
	}
	return resumption{}, fmt.Errorf("%s: %w, and its ledger has lines:\n%w\n"+
		"hint: put a checkpoint back from a copy; or --restart begins anew, and keeps this folder beside", c.folder.Dir, ErrLost, errors.Join(spoilt...))
}

// ProductsFile names the kernels of a run's products, where the backend had a choice: a library's
// algorithms, each with bits of its own. A run goes on with those that it was begun with, or not.
const ProductsFile = "products.json"

// chooser is a backend that chooses, as it goes, among kernels whose bits differ.
type chooser interface {
	// Choices is a record of the choices until now, nil without any; news are sentences for people.
	Choices() (record []byte, news []string, err error)
	// Choose takes a record's choices, before anything is computed.
	Choose(record []byte) error
}

// useProducts makes a backend use the kernels of the run that goes on.
func (c *checkpoints) useProducts(be kernels.Backend) error {
	path := c.folder.Path(ProductsFile)
	record, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	chooses, ok := be.(chooser)
	if !ok {
		c.say("note: the run was begun on a device (%s); it goes on with other bits here", path)
		return nil
	}
	if err := chooses.Choose(record); err != nil {
		return fmt.Errorf("%s: %w: %w\nhint: without that file the run goes on, with other bits from the last checkpoint on", path, ErrChanged, err)
	}
	return nil
}

// writeProducts writes the backend's choices, no later than the checkpoint that rests on them. It is the folder's,
// not the checkpoint's: a choice is a function of a product's shape, and stays when a run rolls back.
func (c *checkpoints) writeProducts(be kernels.Backend) error {
	chooses, ok := be.(chooser)
	if !ok {
		return nil
	}
	record, news, err := chooses.Choices()
	for _, s := range news {
		c.say("note: %s", s)
	}
	if err != nil || record == nil || bytes.Equal(record, c.products) {
		return err
	}
	if err := c.folder.Write(ProductsFile, record); err != nil {
		return err
	}
	c.products = record
	return nil
}

// snapshot is the run's state, and the tensors of samples that are kept.
func (l *loop) snapshot() (state, []safetensors.Tensor, error) {
	t := l.trainer
	s := state{Iteration: t.Iteration, Updates: t.Updates, Since: t.Since, Stage: l.stage.Number, Failures: l.rewards.failures, Skips: l.skips, Anchor: l.checkpoints.regular,
		Best: l.monitors.best, Reference: l.model.Keeps(trainer.Reference), History: l.estimator.History, measures: l.evaluation.measures, watched: l.monitors.watched,
		Bins: l.record.bins, Ends: map[string]int64{}, Sums: map[string]string{}, attempt: l.attempt, Guidance: l.selection.guidance}
	for _, m := range t.Memories {
		s.Paces = append(s.Paces, m.Pace.T)
	}
	var kept []safetensors.Tensor
	var err error
	if s.Selection, kept, err = l.selection.state(l.episodeCodec()); err != nil {
		return s, nil, err
	}
	for name, lines := range l.record.lines() {
		mark, err := lines.End()
		if err != nil {
			return s, nil, fmt.Errorf("saving %s: %w", name, err)
		}
		s.Ends[name], s.Sums[name] = mark.End, mark.SHA256
	}
	return s, kept, nil
}

// episodeCodec is the model that turns its samples into texts; nil: it makes none.
func (l *loop) episodeCodec() model.EpisodeCodec {
	m := l.own()
	if ranks, ok := m.(interface{ First() model.Model }); ok {
		m = ranks.First()
	}
	s, _ := m.(model.EpisodeCodec)
	return s
}

// save writes a checkpoint of finished iterations.
func (l *loop) save() error {
	if err := l.checkpoints.writeProducts(l.Backend); err != nil {
		return err
	}
	tensors, err := l.model.Tensors()
	if err != nil {
		return err
	}
	s, kept, err := l.snapshot()
	if err != nil {
		return err
	}
	return l.checkpoints.write(s, append(tensors, kept...), l.writeAdapters, l.monitors.targets(l.checkpoints.regular))
}

// writeAdapters writes the trained adapter, and its moving average beside.
func (l *loop) writeAdapters(dir string) error {
	if err := l.model.WriteAdapter(trainer.Current, dir); err != nil || l.stage.Optim.EMA == 0 {
		return err
	}
	return l.model.WriteAdapter(model.Average(l.stage.Experiment), filepath.Join(dir, model.EMA))
}

// keep writes a checkpoint that rollbacks go back to.
func (l *loop) keep() error {
	l.checkpoints.regular = l.trainer.Iteration
	return l.save()
}

// load goes back to a checkpoint, and returns the ends of the run's files.
func (l *loop) load(c folder.Checkpoint) (ends map[string]folder.Mark, err error) {
	t := l.trainer
	s, err := readState(c, len(t.Memories))
	if err != nil {
		return nil, err
	}
	f, err := safetensors.Open(filepath.Join(c.Dir, model.TensorsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := l.resetStage(s.Stage); err != nil { // the rest is that stage's
		return nil, err
	}
	if s.Reference {
		l.model.Params().Follow(trainer.Reference, 0) // so that there is one
	} else if err := l.model.Forget(trainer.Reference); err != nil {
		return nil, err
	}
	if err := l.model.Load(f); err != nil {
		return nil, err
	}
	t.Iteration, t.Updates, t.Since = s.Iteration, s.Updates, s.Since
	for i := range s.Paces {
		t.Memories[i].Pace.T = s.Paces[i]
	}
	if (s.History != nil) != (l.estimator.History != nil) {
		return nil, errors.New("the estimator's history does not fit this experiment")
	}
	if s.History != nil {
		*l.estimator.History = *s.History
	}
	if err := l.selection.load(s.Selection, f, l.episodeCodec()); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, err)
	}
	l.rewards.failures, l.skips, l.attempt, l.record.bins, l.selection.guidance = s.Failures, s.Skips, s.attempt, s.Bins, s.Guidance
	l.monitors.watched, l.monitors.best, l.evaluation.measures = s.watched, s.Best, s.measures
	l.checkpoints.regular, l.checkpoints.newest = s.Anchor, s.Iteration
	ends = map[string]folder.Mark{}
	for name, end := range s.Ends {
		ends[name] = folder.Mark{End: end, SHA256: s.Sums[name]}
	}
	return ends, nil
}

// resume loads the checkpoint where a run goes on, and returns the ends of its files.
func (l *loop) resume(from resumption) (map[string]folder.Mark, error) {
	before := "the run begins anew"
	if from.checkpoint != nil {
		before = "the checkpoint before it is used"
	}
	for _, s := range from.spoilt {
		l.Logf("note: %v: %s", s, before)
	}
	if from.checkpoint == nil {
		return nil, nil
	}
	ends, err := l.load(*from.checkpoint)
	if err != nil {
		return nil, err
	}
	l.Logf("going on after iteration %d", l.trainer.Iteration)
	if len(from.spoilt) > 0 { // they would count as newer ones
		return ends, nil
	}
	return ends, l.folder.Tidy(l.checkpoints.keeping(l.monitors.targets(l.checkpoints.regular)))
}
