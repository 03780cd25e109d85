package ledger

import (
	"cmp"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
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
	Choice    *ChoiceLine        `json:"choice,omitempty"`
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

// ChoiceLine is the ledger's record of a choice of samples.
type ChoiceLine struct {
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
