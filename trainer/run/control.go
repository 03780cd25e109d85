package run

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: the worth of a control to its group: T-GRPO (Video-R1, arXiv 2503.21776; open_r1/trainer/grpo_trainer.py).
// With p the mean score of a group's members and q that of its controls, which saw the clip's frames shuffled,
//
//	p >= least * q:  each member with a score above right has bonus more in its total  (0.8, 0.1, 0.3)
//
// Upstream compares its first reward, accuracy, and adds the bonus to it before the sum; here it is added to the
// total, whatever the reward's weight. A score that is missing is in no mean; without a score of either kind there is
// no bonus. Controls are rolled and scored, and neither compared nor learned from.
//
// Invariants (tests): the published rule on groups ahead of their controls, behind them, and on the bound; a group
// without controls keeps its totals.

// controls are the ledger's numbers of an iteration's controls.
type controls struct {
	groups, ahead int
	scores        []float64
}

// reward adds a group's bonus to its totals.
func (c *controls) reward(s experiment.Shuffled, samples []trainer.Sample, scores, totals []float64) {
	for _, g := range trainer.Groups(samples) {
		var members, controls []float64
		for _, i := range g {
			if samples[i].Control {
				controls = append(controls, scores[i])
			} else {
				members = append(members, scores[i])
			}
		}
		if len(controls) == 0 {
			continue
		}
		c.groups, c.scores = c.groups+1, append(c.scores, controls...)
		p, q := ledger.SpreadOf(members), ledger.SpreadOf(controls)
		if p.Missing == len(members) || q.Missing == len(controls) || p.Mean < s.Least*q.Mean {
			continue
		}
		c.ahead++
		for _, i := range g {
			if !samples[i].Control && scores[i] > s.Right {
				totals[i] += s.Bonus
			}
		}
	}
}

// add appends the numbers of further samples.
func (c *controls) add(more controls) {
	c.groups, c.ahead, c.scores = c.groups+more.groups, c.ahead+more.ahead, append(c.scores, more.scores...)
}

// line adds the controls' numbers to the ledger's numbers of episodes.
func (c *controls) line(l *ledger.Line) {
	if c.groups == 0 || l.Episodes == nil {
		return
	}
	l.Episodes["ahead"] = float64(c.ahead) / float64(c.groups)
	if s := ledger.SpreadOf(c.scores); s.Missing < len(c.scores) {
		l.Episodes["shuffled"] = s.Mean
	}
}

// members are scores, without those of controls.
func members(samples []trainer.Sample, scores []float64) []float64 {
	out := slices.Clone(scores)
	for i, s := range samples {
		if s.Control {
			out[i] = math.NaN()
		}
	}
	return out
}

// learnable is trainer.Selection.Keep where groups have controls.
func learnable(samples []trainer.Sample, _ []float64) []bool {
	kept := make([]bool, len(samples))
	for i, s := range samples {
		kept[i] = !s.Control
	}
	return kept
}
