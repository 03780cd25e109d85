package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Line is a line of ledger.jsonl: one iteration. It holds nothing that depends on the clock or
// the machine.
type Line struct {
	Iteration int                `json:"iteration"`           // counted from 1
	Attempt   int                `json:"attempt,omitempty"`   // rollbacks before it
	Measuring int                `json:"measuring,omitempty"` // the number of changes of the held-out measure before it
	Stage     string             `json:"stage,omitempty"`
	Window    []int              `json:"window,omitempty"`
	Prompts   []int              `json:"prompts"`
	Lists     map[string]int     `json:"lists,omitempty"` // of how many prompts each list is, where stages or shares have several
	Samples   int                `json:"samples"`
	Total     Spread             `json:"total"` // the trained samples
	Rewards   map[string]Spread  `json:"rewards"`
	Dead      int                `json:"dead_groups"` // whose samples all have one total
	Spread    float64            `json:"spread_in_groups"`
	Diversity float64            `json:"diversity"` // mean distance of two samples of a prompt, by number
	Selection *SelectionLine     `json:"choice,omitempty"`
	Episodes  map[string]float64 `json:"episodes,omitempty"` // of a model that speaks: how tools were used
	Noisy     *NoisyLine         `json:"noisy,omitempty"`    // where part of the groups saw distorted pictures
	Updates   []UpdateLine       `json:"updates"`
	HeldOut   map[string]Measure `json:"heldout,omitempty"` // where this iteration was evaluated after
	Fired     []string           `json:"monitors,omitempty"`
	Passed    string             `json:"passed,omitempty"`          // why no sample was learned from
	Skipped   int                `json:"skipped_updates,omitempty"` // whose numbers were infinite or none

	BestOf    map[string]float64 `json:"best_of,omitempty"` // expected best total of n samples of a prompt
	Histogram *Histogram         `json:"histogram,omitempty"`
	Pictures  map[string]float64 `json:"pictures,omitempty"` // means of their statistics
	Check     *Check             `json:"check,omitempty"`    // where a stage begins
	Passes    *Passes            `json:"passes,omitempty"`
	Rollback  *Rollback          `json:"rollback,omitempty"` // of a line without an iteration
}

// UpdateLine is one move of the weights.
type UpdateLine struct {
	Loss      float64            `json:"loss"`
	Gradient  float64            `json:"gradient"`
	Rate      float64            `json:"lr"`
	RatioMean float64            `json:"ratio_mean,omitempty"`
	RatioMost float64            `json:"ratio_most,omitempty"` // the furthest from 1
	Mismatch  float64            `json:"mismatch,omitempty"`   // of the first: its log-ratios' root mean square
	Metrics   map[string]float64 `json:"metrics,omitempty"`    // means
}

// SelectionLine is the ledger's record of a selection of samples.
type SelectionLine struct {
	Rolls   int `json:"rolls"`
	Groups  int `json:"groups"`           // that were compared, of those rolled
	Learned int `json:"learned"`          // samples
	Reused  int `json:"reused,omitempty"` // of earlier iterations beside them
}

// Check is the result of a check.
type Check struct {
	Transitions int      `json:"transitions"`
	Ratio       float64  `json:"ratio"`                 // the furthest from 1
	Floor       *float64 `json:"noise_floor,omitempty"` // where it was measured
	ClipRange   float64  `json:"clip_range,omitempty"`  // that it is compared with
}

// NoisyLine is the ledger's record of samples on distorted pictures (NoisyRollout): the likelihood of their tokens on
// the clean ones, over the likelihood when they were sampled. Where episode.noisy.old is "rolled", this is by intent
// the first ratio that the update sees, and not 1.
type NoisyLine struct {
	Samples   int     `json:"samples"`
	Step      int     `json:"step"` // of the noise, of 1000
	Expected  bool    `json:"ratio_expected"`
	RatioMean float64 `json:"ratio_mean"`
	RatioMost float64 `json:"ratio_most"` // the furthest from 1
	Mismatch  float64 `json:"mismatch"`   // root mean square of log-ratios
}

// Passes are runs of pictures through the network, as a plan counts them: guidance by two outputs
// counts twice, and a pass that Back repeats, because it did not fit one pass, does not count.
type Passes struct {
	Rollout   int `json:"rollout_forwards"`
	Reference int `json:"reference_forwards,omitempty"` // by other weights than the current ones
	Train     int `json:"train_forwards"`
	Backward  int `json:"backwards"`
}

// Plus is the sum; nil is where nothing was counted.
func (p *Passes) Plus(more *Passes) *Passes {
	if p == nil || more == nil {
		return cmp.Or(p, more)
	}
	return &Passes{Rollout: p.Rollout + more.Rollout, Reference: p.Reference + more.Reference, Train: p.Train + more.Train, Backward: p.Backward + more.Backward}
}

// UpdateOf is the line of an update, of its metrics' means and of its ratios' spread.
func UpdateOf(loss, gradient, rate float64, metrics map[string][]float64) UpdateLine {
	line := UpdateLine{Loss: loss, Gradient: gradient, Rate: rate, Metrics: map[string]float64{}}
	for name, values := range metrics {
		if name == "ratio" {
			if m := SpreadOf(values).Mean; !math.IsNaN(m) {
				line.RatioMean = min(m, math.MaxFloat64) // an infinite one has no place in JSON
			}
			line.Mismatch = logRatio(values)
			for _, r := range values {
				if math.IsNaN(r) {
					continue
				}
				if r = min(r, math.MaxFloat64); math.Abs(r-1) >= math.Abs(line.RatioMost-1) || line.RatioMost == 0 {
					line.RatioMost = r
				}
			}
			continue
		}
		if m := SpreadOf(values).Mean; name != "loss" && !math.IsNaN(m) && !math.IsInf(m, 0) {
			line.Metrics[name] = m
		}
	}
	return line
}

// logRatio is the root mean square of ratios' logarithms.
func logRatio(ratios []float64) float64 {
	sum := 0.0
	for _, r := range ratios {
		if r != 1 && !math.IsNaN(r) {
			sum += float64(portable.Log(r) * portable.Log(r))
		}
	}
	return min(math.Sqrt(sum/float64(max(1, len(ratios)))), math.MaxFloat64)
}

// SampleLine is a line of samples.jsonl.
type SampleLine struct {
	Iteration int                  `json:"iteration"`
	Attempt   int                  `json:"attempt,omitempty"`
	Prompt    int                  `json:"prompt"`
	Sample    int                  `json:"sample"`
	Text      string               `json:"text"`
	Total     *float64             `json:"total"` // null: missing
	Advantage *float64             `json:"advantage"`
	Scores    map[string]ScoreLine `json:"scores"`
	Size      []int                `json:"size,omitempty"`     // of a picture, where not all have one
	Picture   string               `json:"picture,omitempty"`  // where it was kept
	Sources   []string             `json:"sources,omitempty"`  // and its sources
	Rollback  *Rollback            `json:"rollback,omitempty"` // of a line without a sample
}

// Number is nil without a number: JSON has no NaN.
func Number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// ScoreLine is a reward's score of a sample.
type ScoreLine struct {
	Value    *float64           `json:"value"`
	Missing  string             `json:"missing,omitempty"`
	Parts    map[string]float64 `json:"parts,omitempty"`
	Evidence []evidence.Reason  `json:"evidence,omitempty"`
}

// TranscriptLine is a line of transcripts.jsonl: an episode with every token.
type TranscriptLine struct {
	Iteration int               `json:"iteration"` // 0: an evaluation before the first
	Attempt   int               `json:"attempt,omitempty"`
	HeldOut   bool              `json:"heldout,omitempty"`
	Prompt    int               `json:"prompt"`
	Sample    int               `json:"sample"`
	Text      string            `json:"text"`
	Replies   []string          `json:"said"`              // the model, a turn each
	Pieces    []string          `json:"pieces"`            // the same, a token each
	Given     int               `json:"given,omitempty"`   // how many of the first were not drawn ([episode.guided], [episode.tree])
	Picture   string            `json:"picture,omitempty"` // the question's with crops, in the run's folder, where it was kept
	Saw       []string          `json:"saw,omitempty"`     // the episode's pictures as the model saw them, where they were kept
	Total     *float64          `json:"total"`
	Advantage *float64          `json:"advantage,omitempty"`
	Episode   *tools.Transcript `json:"episode"`
}

// TranscriptsFile has a line an episode.
const TranscriptsFile = "transcripts.jsonl"

// TimingLine is a line of timing.jsonl.
type TimingLine struct {
	Iteration int                `json:"iteration"`
	Attempt   int                `json:"attempt,omitempty"` // rollbacks before it
	At        float64            `json:"at,omitempty"`      // when it was finished: seconds since 1970
	Seconds   map[string]float64 `json:"seconds"`           // by part
}

// Work is the time of an iteration without its evaluation.
func Work(seconds map[string]float64) float64 { return seconds["all"] - seconds["evaluate"] }

// Spent is the work of a run up to an iteration, in the attempt after that many rollbacks: the work of abandoned
// attempts counts. Of an iteration that a killed process made, and another made again, the last counts.
func Spent(path string, iteration, attempt int) (seconds float64, err error) {
	all := map[[2]int]float64{}
	err = eachTiming(path, func(l TimingLine) {
		if l.Attempt < attempt || l.Attempt == attempt && l.Iteration <= iteration {
			at := [2]int{l.Attempt, l.Iteration}
			seconds += Work(l.Seconds) - all[at]
			all[at] = Work(l.Seconds)
		}
	})
	return seconds, err
}

// ReadTiming is the seconds of each iteration, by part; of one that ran twice, the last time. A
// folder without the file has none, and a line that cannot be read is left out: no number of the run
// depends on it.
func ReadTiming(path string) (map[int]map[string]float64, error) {
	all := map[int]map[string]float64{}
	err := eachTiming(path, func(l TimingLine) { all[l.Iteration] = l.Seconds })
	return all, err
}

// eachTiming calls f for every line that can be read.
func eachTiming(path string, f func(l TimingLine)) error {
	err := folder.ReadLines(path, func(text []byte) error {
		var l TimingLine
		if json.Unmarshal(text, &l) == nil && l.Seconds != nil {
			f(l)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// HeldOutFile has a line a held-out sample of every evaluation.
const HeldOutFile = "heldout.jsonl"

// HeldOutLine is a line of heldout.jsonl. Two runs are compared prompt by prompt with it: the
// ledger has means over prompts alone.
type HeldOutLine struct {
	Iteration int                  `json:"iteration"` // 0: before the first
	Attempt   int                  `json:"attempt,omitempty"`
	Measuring int                  `json:"measuring,omitempty"` // of a line before it that is lower, nothing can be compared
	Prompt    int                  `json:"prompt"`              // counted from 0 among those held out
	Sample    int                  `json:"sample"`
	Text      string               `json:"text"`
	Total     *float64             `json:"total"` // null: missing
	Scores    map[string]ScoreLine `json:"scores"`
	At        *[4]int              `json:"at,omitempty"`   // left, top, width, height on the evaluation's sheet of pictures; nil: not there
	Size      *[2]int              `json:"size,omitempty"` // width and height of the picture, where evidence has boxes in it
}

// Number is a reward's value, or the total; nil where it is missing.
func (l *HeldOutLine) Number(name string) *float64 {
	if name == "total" {
		return l.Total
	}
	return l.Scores[name].Value
}

// ReadHeldOutOf reads the samples of few evaluations alone: lines of others are skipped without being read.
func ReadHeldOutOf(path string, iterations ...int) (map[int][]HeldOutLine, error) {
	return readHeldOut(path, func(text []byte) bool {
		number, ok := bytes.CutPrefix(text, []byte(`{"iteration":`))
		end := bytes.IndexByte(number, ',')
		if !ok || end < 0 {
			return true // it is written otherwise
		}
		n, err := strconv.Atoi(string(number[:end]))
		return err != nil || slices.Contains(iterations, n)
	})
}

// ReadHeldOut reads the samples of each evaluation, by its iteration; of one that a rollback repeated,
// or that was measured anew, the last one's. A folder without the file has none.
func ReadHeldOut(path string) (map[int][]HeldOutLine, error) {
	return readHeldOut(path, func([]byte) bool { return true })
}

func readHeldOut(path string, wanted func(line []byte) bool) (map[int][]HeldOutLine, error) {
	all := map[int][]HeldOutLine{}
	err := folder.ReadLines(path, func(text []byte) error {
		if !wanted(text) {
			return nil
		}
		var l HeldOutLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		had := all[l.Iteration]
		if len(had) > 0 && (had[0].Attempt < l.Attempt || had[0].Measuring < l.Measuring) {
			had = nil
		}
		all[l.Iteration] = append(had, l)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

// How a run ended.
const (
	Finished    = "finished"
	Stopped     = "stopped by a monitor"
	Interrupted = "interrupted"
	UnderWay    = "under way" // it has not ended, or was killed
)

// Result is result.json. A run that is under way has one, too.
type Result struct {
	Status     string            `json:"status"`
	Why        string            `json:"why,omitempty"`
	Iterations int               `json:"iterations"`
	HeldOut    map[string]Gain   `json:"heldout"`
	Rewards    map[string]string `json:"rewards"` // "trained" or "gold"
	// Guided is the same under Guidance, where it was measured.
	Guidance float64         `json:"guidance,omitempty"`
	Guided   map[string]Gain `json:"guided,omitempty"`
}

// Gain is a held-out measure before training and after. A missing measure is nil.
type Gain struct {
	Before    *Measure `json:"before,omitempty"`
	After     *Measure `json:"after,omitempty"`
	Iteration int      `json:"iteration,omitempty"` // that After was measured after
}

// Known reports whether both were measured, so that there is a gain.
func (g Gain) Known() bool { return g.Before != nil && g.After != nil }
