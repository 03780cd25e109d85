package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// record is a run's own files: the files of its folder that are appended to, and the pictures of samples.
type record struct {
	folder                           *folder.Folder
	ledger, samples, heldOut, timing *folder.Lines
	further                          map[string]*folder.Lines // the model appends to them
	fleet                            *folder.Lines            // workers' jobs; nil until the first
	jobs                             sync.Mutex               // of fleet: rolls and scores are written beside each other
	bins                             *ledger.Bins             // of the totals' histogram; a checkpoint holds it
	say                              say
}

// open opens the files, cut back to their ends in a checkpoint. The model appends to further ones.
func (r *record) open(ends map[string]folder.Mark, further []string) (err error) {
	lines := func(name string) *folder.Lines {
		if err != nil {
			return nil
		}
		var l *folder.Lines
		if l, err = r.folder.Lines(name, ends[name]); err == nil && l.Changed() != nil {
			r.say("warning: %v; training goes on, but the curves and the page may be wrong there", l.Changed())
		}
		return l
	}
	r.ledger, r.samples, r.further = lines("ledger.jsonl"), lines("samples.jsonl"), map[string]*folder.Lines{}
	r.heldOut = lines(ledger.HeldOutFile)
	for _, name := range further {
		r.further[name] = lines(name)
	}
	if err != nil {
		return err
	}
	r.timing, err = r.folder.AllLines("timing.jsonl")
	return err
}

// lines are the files that a checkpoint cuts back.
func (r *record) lines() map[string]*folder.Lines {
	all := map[string]*folder.Lines{"ledger.jsonl": r.ledger, "samples.jsonl": r.samples, ledger.HeldOutFile: r.heldOut}
	maps.Copy(all, r.further)
	return all
}

func (r *record) close() error {
	all := r.lines()
	all["timing.jsonl"] = r.timing
	all[ledger.FleetFile] = r.fleet
	var errs []error
	for _, l := range all {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// line is the ledger's line of an iteration, without the numbers of the model and the selection.
func (r *record) line(it iteration, report *trainer.Report, scored *scores, list []prompts.Prompt) *ledger.Line {
	l := &ledger.Line{Iteration: it.number + 1, Attempt: it.attempt, Stage: it.settings.Stage, Window: it.settings.Trained, Passed: report.Passed, Samples: len(report.Samples), Skipped: report.Skipped,
		Total: ledger.SpreadOf(totals(it.settings, report.Samples, report.Scores)), Rewards: map[string]ledger.Spread{}}
	if len(report.Samples) == 0 { // they hold numbers that are not finite
		none := math.NaN()
		l.Total = ledger.Spread{Mean: none, Std: none, Least: none, Most: none}
		return l
	}
	groups := trainer.Groups(report.Samples)
	for _, g := range groups {
		l.Prompts = append(l.Prompts, report.Samples[g[0]].Key.Prompt)
	}
	l.Lists = countLists(it.settings.Experiment, list, l.Prompts)
	if it.settings.Supervised() {
		return l
	}
	for name := range scored.results {
		l.Rewards[name] = ledger.SpreadOf(scored.numbers(name))
	}
	compared := members(report.Samples, report.Scores)
	l.Dead, l.Spread = ledger.Within(groups, compared)
	r.describe(l, it.settings.Rollout.Group, compared, groups)
	return l
}

// totals are the ledger's numbers of an iteration's totals: answers of a file have none, and neither have controls.
func totals(settings experiment.Settings, samples []trainer.Sample, scores []float64) (all []float64) {
	if settings.Supervised() {
		return slices.Repeat([]float64{math.NaN()}, len(scores))
	}
	for i, s := range samples {
		if !s.Control {
			all = append(all, scores[i])
		}
	}
	return all
}

// describe fills in numbers of samples in which a collapse or a hacked reward shows before it does in the mean.
func (r *record) describe(l *ledger.Line, group int, scores []float64, groups [][]int) {
	l.BestOf = map[string]float64{}
	for _, k := range experiment.BestOfs(group) {
		if v := advantage.ExpectedBest(byGroup(groups, scores), k); !math.IsNaN(v) {
			l.BestOf[strconv.Itoa(k)] = v
		}
	}
	if r.bins == nil {
		r.bins = ledger.BinsOf(scores)
	}
	if r.bins != nil && l.Total.Missing < l.Samples {
		l.Histogram = r.bins.Count(scores)
	}
}

// byGroup are the numbers of every group.
func byGroup(groups [][]int, x []float64) [][]float64 {
	out := make([][]float64, len(groups))
	for g, at := range groups {
		for _, i := range at {
			out[g] = append(out[g], x[i])
		}
	}
	return out
}

// append writes an iteration's line, and a line for each sample.
func (r *record) append(it iteration, m model.Model, report *trainer.Report, scored *scores, line *ledger.Line, list []prompts.Prompt) error {
	if len(report.Samples) == 0 {
		return r.ledger.Append(line)
	}
	shown, err := m.Record(model.Outputs{Folder: r.folder, Lines: r.further}, line, report)
	if err != nil {
		return err
	}
	sized := len(it.settings.PictureSizes()) > 1 || slices.ContainsFunc(list, prompts.Prompt.Sized) // pictures may have several sizes
	for i, s := range report.Samples {
		var size []int
		if m := s.Item.Image; m != nil && sized {
			size = []int{m.Width, m.Height}
		}
		var sources []string
		if shown[i] != "" {
			if sources, err = writeSources(r.folder, s.Item.Sources); err != nil {
				return err
			}
		}
		if err := r.samples.Append(ledger.SampleLine{Iteration: line.Iteration, Attempt: line.Attempt, Prompt: s.Key.Prompt, Sample: s.Key.Sample, Text: list[s.Key.Prompt].Text,
			Total: ledger.Number(report.Scores[i]), Advantage: ledger.Number(report.Advantages[i]), Scores: scored.lines(i), Size: size, Picture: shown[i], Sources: sources}); err != nil {
			return err
		}
	}
	return r.ledger.Append(line)
}

// job appends a worker's job to the fleet's file, which may differ between runs with the same bytes elsewhere.
func (r *record) job(e fleet.Entry) {
	r.jobs.Lock()
	defer r.jobs.Unlock()
	e.At = float64(time.Now().UnixMilli()) / 1000
	if r.fleet == nil {
		lines, err := r.folder.AllLines(ledger.FleetFile)
		if err != nil {
			r.say("warning: %s is not written: %v", ledger.FleetFile, err)
			return
		}
		r.fleet = lines
	}
	if err := r.fleet.Append(e); err != nil {
		r.say("warning: %s: %v", ledger.FleetFile, err)
	}
}

// How a run ended. A monitor's stop is in the checkpoint that it leaves, too: a process that is killed
// before result.json says so does not go on past it.

const resultFile = "result.json"

// end writes result.json.
func (l *loop) end(status, why string) (*ledger.Result, error) {
	r := l.result(status, why)
	if len(l.evaluation.Guided) > 0 && l.Evaluate.Guided > 0 { // a run that is resumed may measure it no longer
		if err := l.evaluation.guidedEnd(l.subject(), r); err != nil {
			return nil, err
		}
	}
	if status == ledger.Interrupted && l.checkpoints.newest != l.trainer.Iteration {
		if err := l.save(); err != nil {
			return nil, err
		}
	}
	return r, l.folder.WriteJSON(resultFile, r)
}

// result is the run's result until now.
func (l *loop) result(status, why string) *ledger.Result {
	r := &ledger.Result{Status: status, Why: why, Iterations: l.trainer.Iteration, HeldOut: map[string]ledger.Gain{}, Rewards: map[string]string{}}
	for name, m := range l.evaluation.Before {
		r.HeldOut[name] = ledger.Gain{Before: &m}
	}
	if l.evaluation.Measured > 0 { // else the latest is the one before
		for name, m := range l.evaluation.Latest {
			r.HeldOut[name] = ledger.Gain{Before: r.HeldOut[name].Before, After: &m, Iteration: l.evaluation.Measured}
		}
	}
	for k, j := range l.rewards.all {
		r.Rewards[j.name] = "gold"
		for _, at := range l.EachStage() {
			if at.Rewards[k].Train {
				r.Rewards[j.name] = "trained"
			}
		}
	}
	return r
}

// stop saves a run that a monitor stops.
func (l *loop) stop(f *fired) (*fired, error) {
	l.monitors.Stopped = f.says
	return f, l.save()
}

// stoppedBefore is why a monitor stopped the run at its checkpoint, where result.json does not say so. A run whose
// result says so goes on past it.
func (l *loop) stoppedBefore() (why string, err error) {
	why, l.monitors.Stopped = l.monitors.Stopped, ""
	if why == "" {
		return "", nil
	}
	path := l.folder.Path(resultFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return why, nil
	}
	if err != nil {
		return "", err
	}
	var r ledger.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return "", fmt.Errorf("%s: %w\nhint: delete it; it is written anew", path, err)
	}
	if r.Status == ledger.Stopped && r.Iterations == l.trainer.Iteration {
		return "", nil
	}
	return why, nil
}

// failed saves a run that a reward stopped.
func (l *loop) failed(err error) error {
	var f failure
	if !errors.As(err, &f) {
		return err
	}
	clear(l.rewards.failures) // a resumed run counts anew
	l.skips = 0
	if saved := l.save(); saved != nil {
		return errors.Join(err, saved)
	}
	return fmt.Errorf("%w\nhint: iteration %d is saved, --resume goes on from there", err, l.trainer.Iteration)
}
