package training

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
)

// Line is a line of ledger.jsonl: one iteration. It holds nothing that depends on the clock or
// the machine.
type Line struct {
	Iteration int                `json:"iteration"`         // counted from 1
	Attempt   int                `json:"attempt,omitempty"` // rollbacks before it
	Stage     string             `json:"stage,omitempty"`
	Window    []int              `json:"window,omitempty"`
	Prompts   []int              `json:"prompts"`
	Samples   int                `json:"samples"`
	Total     Spread             `json:"total"` // what was trained on
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
	Passed    string             `json:"passed,omitempty"` // why nothing was learned

	BestOf    map[string]float64 `json:"best_of,omitempty"` // expected best total of so many samples of a prompt
	Histogram *Histogram         `json:"histogram,omitempty"`
	Pictures  map[string]float64 `json:"pictures,omitempty"` // means of their statistics
	Check     *Check             `json:"check,omitempty"`    // where a stage begins
	Passes    *rollout.Passes    `json:"passes,omitempty"`
	Rollback  *Rollback          `json:"rollback,omitempty"` // of a line that is no iteration
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

// Spread is what so many numbers look like; missing ones are counted and left out.
type Spread struct {
	Mean    float64 `json:"mean"`
	Std     float64 `json:"std"`
	Least   float64 `json:"min"`
	Most    float64 `json:"max"`
	Missing int     `json:"missing,omitempty"`
}

func spreadOf(x []float64) Spread {
	var s Spread
	n, sum := 0.0, 0.0
	for _, v := range x {
		if math.IsNaN(v) {
			s.Missing++
			continue
		}
		if n == 0 {
			s.Least, s.Most = v, v
		}
		n, sum = n+1, sum+v
		s.Least, s.Most = min(s.Least, v), max(s.Most, v)
	}
	if n == 0 {
		return s
	}
	s.Mean = sum / n
	squares := 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			squares += float64((v - s.Mean) * (v - s.Mean))
		}
	}
	s.Std = math.Sqrt(squares / n)
	return s
}

// update is the line of a move.
func update(u trainer.Update) UpdateLine {
	line := UpdateLine{Loss: u.Loss, Gradient: u.Norm, Rate: u.Rate, Metrics: map[string]float64{}}
	for name, values := range u.Metrics {
		if name == "ratio" {
			line.RatioMean, line.Mismatch = spreadOf(values).Mean, logRatio(values)
			for _, r := range values {
				if math.Abs(r-1) >= math.Abs(line.RatioMost-1) || line.RatioMost == 0 {
					line.RatioMost = r
				}
			}
			continue
		}
		if m := spreadOf(values).Mean; name != "loss" && !math.IsNaN(m) && !math.IsInf(m, 0) {
			line.Metrics[name] = m
		}
	}
	return line
}

// groups are the numbers of samples by prompt, in order of their first.
func groups(samples []trainer.Sample) [][]int {
	var all [][]int
	at := map[int]int{}
	for i, s := range samples {
		g, ok := at[s.Key.Prompt]
		if !ok {
			g = len(all)
			at[s.Key.Prompt] = g
			all = append(all, nil)
		}
		all[g] = append(all[g], i)
	}
	return all
}

// within is how many groups have one total alone, and the mean deviation inside groups.
func within(groups [][]int, totals []float64) (dead int, spread float64) {
	for _, g := range groups {
		var x []float64
		for _, i := range g {
			x = append(x, totals[i])
		}
		s := spreadOf(x)
		spread += s.Std / float64(len(groups))
		if s.Missing < len(x) && s.Least == s.Most {
			dead++
		}
	}
	return dead, spread
}

// diversity is the root of the mean squared difference of two samples of a prompt.
func diversity(samples []trainer.Sample, groups [][]int) float64 {
	if len(samples) > 0 && samples[0].Item.Episode != nil {
		return differ(samples, groups)
	}
	sum, pairs := 0.0, 0.0
	for _, g := range groups {
		for k, i := range g {
			for _, j := range g[:k] {
				a, b := samples[i].Item.Final, samples[j].Item.Final
				d := 0.0
				for e := range a {
					d += float64((a[e] - b[e]) * (a[e] - b[e]))
				}
				sum, pairs = sum+math.Sqrt(d/float64(len(a))), pairs+1
			}
		}
	}
	if pairs == 0 {
		return 0
	}
	return sum / pairs
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
	Picture   string               `json:"picture,omitempty"`  // where it was kept
	Rollback  *Rollback            `json:"rollback,omitempty"` // of a line that is no sample
}

// number is nil where there is none: JSON has no NaN.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// TimingLine is a line of timing.jsonl.
type TimingLine struct {
	Iteration int                `json:"iteration"`
	Seconds   map[string]float64 `json:"seconds"` // by part
}

// Measure is a mean over held-out prompts with its 95 % interval, from the prompts' own means.
type Measure struct {
	Mean    float64 `json:"mean"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Prompts int     `json:"prompts"`
	Missing int     `json:"missing,omitempty"`
}

// measure is of samples' numbers by prompt: mean ± t(n-1) standard errors over prompts.
func measure(byPrompt [][]float64) Measure {
	var m Measure
	var means []float64
	for _, x := range byPrompt {
		s := spreadOf(x)
		m.Missing += s.Missing
		if s.Missing < len(x) {
			means = append(means, s.Mean)
		}
	}
	s := spreadOf(means)
	m.Mean, m.Low, m.High, m.Prompts = s.Mean, s.Mean, s.Mean, len(means)
	if n := float64(len(means)); n > 1 {
		half := student(len(means)-1) * s.Std / math.Sqrt(n-1)
		m.Low, m.High = s.Mean-half, s.Mean+half
	}
	return m
}

// student is the 97.5 % quantile of Student's t: the table's for few degrees of freedom, and
// Cornish and Fisher's expansion beyond.
func student(df int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228}
	if df <= len(table) {
		return table[df-1]
	}
	const z = 1.959964
	n := float64(df)
	cube := float64(z * z * z)
	return z + (cube+z)/(4*n) + (float64(5*portable.Pow(z, 5))+16*cube+float64(3*z))/(96*n*n)
}
