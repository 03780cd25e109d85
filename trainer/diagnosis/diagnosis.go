// Package diagnosis gives reasons why a reward may stay flat, from the measurements of a run's first iteration: how
// much of the gradient each step keeps, how sure a group is of an advantage's sign, whether samples of a prompt
// differ at all, and whether the clip range, the optimiser or rounding swallows the step. It is plain mathematics,
// and knows no network.
//
//	m := diagnosis.Measured{Group: 4, Groups: 8, Dead: 6, ...}
//	for _, f := range m.Findings() { fmt.Println(f) } // findings, with their numbers and their remedies
//
// Start at Measured; WrongSign and Keeps have the formulas.
package diagnosis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/sde"
)

// Measured has the measurements of an iteration. Missing ones are nil.
type Measured struct {
	Group         int     `json:"group"`            // samples a prompt
	Groups        int     `json:"groups"`           // prompts
	Dead          int     `json:"dead_groups"`      // whose samples all have one total
	Spread        float64 `json:"spread"`           // mean deviation of totals inside a group
	Apart         bool    `json:"apart,omitempty"`  // samples are not compared with their group's mean: pairs, the best, weights, no advantages
	Free          bool    `json:"free,omitempty"`   // nothing is learned from how samples compare
	Conversations bool    `json:"spoken,omitempty"` // samples are conversations

	Parts []Part `json:"parts,omitempty"` // of a total that is a sum of rewards

	Noise   *float64 `json:"reward_noise,omitempty"` // deviation of a total, where rewards were asked twice
	Keeps   []Keep   `json:"keeps,omitempty"`        // every step that could draw
	Floor   *float64 `json:"noise_floor,omitempty"`  // of log-probabilities, by rounding
	Clip    float64  `json:"clip_range,omitempty"`   // 0: none, or of another quantity
	Ratios  *Ratios  `json:"ratios,omitempty"`       // after the iteration's updates
	Element *float64 `json:"gradient_element,omitempty"`
	Eps     float64  `json:"eps,omitempty"` // of the optimiser, which Element is compared with
	Rate    float64  `json:"lr,omitempty"`
}

// A Part is a reward in a total: the mean deviation of its term, weight and scale included, inside a group.
type Part struct {
	Name   string  `json:"name"`
	Spread float64 `json:"spread"`
}

// A Keep is the share of the gradient that a step keeps.
type Keep struct {
	Step    int     `json:"step"`
	Share   float64 `json:"share"` // of the largest of all steps
	Trained bool    `json:"trained"`
}

// Ratios are the effects of updates on the decisions that they were made by.
type Ratios struct {
	Moved   float64 `json:"moved"`   // root mean square of log-ratios
	Outside float64 `json:"outside"` // the share beyond the clip range
}

// RatiosOf are of log-ratios; range 0 clips nothing.
func RatiosOf(logs []float64, clip float64) *Ratios {
	if len(logs) == 0 {
		return nil
	}
	r := &Ratios{Moved: root(logs)}
	for _, d := range logs {
		if clip > 0 && math.Abs(portable.Expm1(d)) > clip {
			r.Outside += 1 / float64(len(logs))
		}
	}
	return r
}

// KeepsOf are shares of the largest, of the steps that keep something.
func KeepsOf(keeps []float64, trained []int) (all []Keep) {
	most := 0.0
	for _, k := range keeps {
		most = max(most, k)
	}
	for i, k := range keeps {
		if k > 0 {
			all = append(all, Keep{Step: i, Share: k / most, Trained: slices.Contains(trained, i)})
		}
	}
	return all
}

// A Finding is one reason for a flat reward.
type Finding struct {
	Cause  string `json:"cause"` // a word: see Findings
	Text   string `json:"says"`
	Remedy string `json:"remedy"`
}

func (f Finding) String() string { return f.Text + "; " + f.Remedy }

// Where a number becomes a finding.
const (
	leastKept    = 0.05 // of the largest step's gradient, by the trained steps
	mostWrong    = 0.15 // of advantages' signs
	mostMisled   = 0.18 // of them by the group's size alone: groups of 2 and 3
	mostDead     = 0.5  // of groups
	mostOfOne    = 0.95 // of a total's variance inside groups, by one reward of several
	mostOutside  = 0.5  // of decisions, after the first iteration
	leastElement = 10.0 // epsilons of the optimiser
)

// Findings are the diagnoses that apply, the gravest first: "dead", "noise", "group", "lopsided", "vanishing",
// "clip", "swallowed".
func (m Measured) Findings() (all []Finding) {
	for _, find := range []func() *Finding{m.dead, m.unsure, m.lopsided, m.vanishing, m.epsilon, m.clipped, m.swallowed} {
		if f := find(); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

// dead: samples of a prompt do not differ.
func (m Measured) dead() *Finding {
	if m.Groups == 0 || m.Free || float64(m.Dead) < mostDead*float64(m.Groups) {
		return nil
	}
	return &Finding{"dead", fmt.Sprintf("in %d of %d groups all samples have one total, and nothing is learned from them", m.Dead, m.Groups),
		fmt.Sprintf("a reward of degrees and not of yes or no, more %s, or prompts that are neither always nor never solved (rollout.filter, rollout.curriculum)", m.noise())}
}

// lopsided: of several rewards one decides alone, since its numbers are larger.
func (m Measured) lopsided() *Finding {
	var all float64
	var most Part
	for _, p := range m.Parts {
		all += p.Spread * p.Spread
		if p.Spread > most.Spread {
			most = p
		}
	}
	if len(m.Parts) < 2 || m.Apart || m.Free || !(all > 0) || most.Spread*most.Spread < mostOfOne*all {
		return nil
	}
	var others []string
	for _, p := range m.Parts {
		if p.Name != most.Name {
			others = append(others, fmt.Sprintf("%.3g of %s", p.Spread, p.Name))
		}
	}
	return &Finding{"lopsided", fmt.Sprintf("%.3g %% of the total's variance inside groups is reward %s: with their weights, samples of a prompt differ by %.3g of it, and by %s", 100*most.Spread*most.Spread/all, most.Name, most.Spread, strings.Join(others, ", ")),
		"scale = { kind = \"batch\" } in each [[reward]], other weights, or advantage.combine = \"advantages\""}
}

// noise is the setting that samples of a prompt differ by.
func (m Measured) noise() string {
	if m.Conversations {
		return "episode.sampling.temperature"
	}
	return "sampler.noise"
}

// unsure: a group is too small, or a reward too noisy, for the sign of an advantage.
func (m Measured) unsure() *Finding {
	if m.Group < 2 || m.Apart || m.Free || !(m.Spread > 0) {
		return nil
	}
	noise := 0.0
	if m.Noise != nil {
		noise = *m.Noise
	}
	wrong, alone := WrongSign(m.Group, m.Spread, noise), WrongSign(m.Group, m.Spread, 0)
	if wrong <= mostWrong || noise == 0 && wrong <= mostMisled {
		return nil
	}
	if noise > 0 && WrongSign(256, m.Spread, noise) > mostWrong-0.05 || wrong > 1.5*alone {
		return &Finding{"noise", fmt.Sprintf("asked twice about the same samples, the total differs by %.3g, and inside a group by %.3g: %.0f %% of advantages have the wrong sign", noise, m.Spread, 100*wrong),
			fmt.Sprintf("a steadier reward (a judge at temperature 0, several askings, an ensemble), or samples that differ more (%s)", m.noise())}
	}
	if wrong <= mostMisled {
		return nil
	}
	return &Finding{"group", fmt.Sprintf("a group of %d misjudges its own mean: %.0f %% of advantages have the wrong sign", m.Group, 100*wrong),
		fmt.Sprintf("rollout.group = %d brings that to 10 %%, of fewer prompts if need be", GroupFor(0.1, m.Spread, noise))}
}

// vanishing: the trained steps hardly reach the network.
func (m Measured) vanishing() *Finding {
	var kept []float64
	best := Keep{}
	for _, k := range m.Keeps {
		if k.Trained {
			kept = append(kept, k.Share)
		}
		if k.Share > best.Share {
			best = k
		}
	}
	if len(kept) == 0 || root(kept) >= leastKept {
		return nil
	}
	return &Finding{"vanishing", fmt.Sprintf("the trained steps keep %.2g %% of the gradient that step %d would: √(Δ(1-s)/s) vanishes where noise is high", 100*root(kept), best.Step),
		fmt.Sprintf("a window nearer to step %d, or a smaller sampler.schedule.shift (which may be that of training alone)", best.Step)}
}

// epsilon: the gradient is not 0, but below the optimiser's epsilon.
func (m Measured) epsilon() *Finding {
	if m.Element == nil || m.Eps == 0 || m.Dead == m.Groups && m.Groups > 0 || *m.Element >= leastElement*m.Eps {
		return nil
	}
	return &Finding{"vanishing", fmt.Sprintf("an element of the gradient is %.2g, beside optim.eps = %.2g: the optimiser hardly moves", *m.Element, m.Eps),
		fmt.Sprintf("optim.eps = %.0e, or a window of later steps", math.Max(*m.Element, 1e-30)/1000)}
}

// clipped: the clip range cuts decisions by rounding, or most of them at once.
func (m Measured) clipped() *Finding {
	switch {
	case m.Clip == 0:
		return nil
	case m.Floor != nil && *m.Floor > m.Clip:
		return &Finding{"clip", fmt.Sprintf("loss.clip_range = %.2g is below the noise floor, %.2g: decisions are cut by rounding", m.Clip, *m.Floor),
			fmt.Sprintf("loss.clip_range = %.0e, or model.precision = \"f32\"", 3**m.Floor)}
	case m.Ratios != nil && m.Ratios.Outside > mostOutside:
		return &Finding{"clip", fmt.Sprintf("after the first iteration %.0f %% of ratios are beyond loss.clip_range = %.2g (they moved by %.2g): the clip stops what has hardly begun", 100*m.Ratios.Outside, m.Clip, m.Ratios.Moved),
			fmt.Sprintf("loss.clip_range = %.0e, a smaller optim.lr, or fewer optim.updates", 2*m.Ratios.Moved)}
	}
	return nil
}

// swallowed: the effect of updates on decisions is below rounding.
func (m Measured) swallowed() *Finding {
	if m.Ratios == nil || m.Dead == m.Groups && !m.Free {
		return nil
	}
	if m.Ratios.Moved == 0 {
		return &Finding{"swallowed", "the updates moved no log-probability at all: rounding swallows the step, or nothing that is trained is used",
			fmt.Sprintf("optim.lr = %.0e, or model.precision = \"f32\"; 'plan' lists what is trained", 100*m.Rate)}
	}
	if m.Floor != nil && m.Ratios.Moved < *m.Floor/3 {
		return &Finding{"swallowed", fmt.Sprintf("the updates moved log-probabilities by %.2g, and rounding alone by %.2g: it swallows the step", m.Ratios.Moved, *m.Floor),
			fmt.Sprintf("optim.lr = %.0e, or model.precision = \"f32\"", m.Rate*math.Min(100, 3**m.Floor/m.Ratios.Moved))}
	}
	return nil
}

// Lines are the numbers, for people.
func (m Measured) Lines() (all []string) {
	groups := fmt.Sprintf("groups: %d of %d dead, spread inside %.3g", m.Dead, m.Groups, m.Spread)
	if !m.Apart && !m.Free {
		groups += fmt.Sprintf("; signs wrong by group size %.0f %%", 100*WrongSign(m.Group, 1, 0))
	}
	all = append(all, groups)
	if m.Noise != nil && !m.Apart && !m.Free {
		all = append(all, fmt.Sprintf("rewards asked twice differ by %.3g; signs wrong in all %.0f %%", *m.Noise, 100*WrongSign(m.Group, m.Spread, *m.Noise)))
	}
	if len(m.Keeps) > 0 {
		var of []string
		for _, k := range m.Keeps {
			mark := ""
			if k.Trained {
				mark = "*"
			}
			of = append(of, fmt.Sprintf("%d%s %.0f", k.Step, mark, 100*k.Share))
		}
		all = append(all, "gradient that steps keep, % of the largest, trained ones with *: "+strings.Join(of, ", "))
	}
	if m.Element != nil {
		all = append(all, fmt.Sprintf("an element of the gradient %.2g, optim.eps %.2g", *m.Element, m.Eps))
	}
	if m.Ratios != nil {
		s := fmt.Sprintf("log-probabilities moved by %.2g", m.Ratios.Moved)
		if m.Floor != nil {
			s += fmt.Sprintf(", rounding %.2g", *m.Floor)
		}
		if m.Clip > 0 {
			s += fmt.Sprintf(", clip range %.2g, beyond it %.0f %%", m.Clip, 100*m.Ratios.Outside)
		}
		all = append(all, s)
	}
	return all
}

// Card: how often an advantage has the wrong sign. Samples of a prompt have normal totals of deviation S, of which
// the part N is noise of the reward (it would say something else if it were asked again). A sample's true advantage
// is its noiseless total less the prompt's true mean; training uses its total less the mean of its group of G. Both
// are normal with the correlation
//
//	c = √((1 - 1/G)·(1 - N²/S²)),   and the signs differ with the probability arccos(c)/π
//
// which is 1/4 for groups of 2, 1/6 for 4 and 1/11 for 12 without noise, and 1/2 where all is noise.
// Invariant (test): a million drawn groups.

// WrongSign is the share of advantages with the wrong sign.
func WrongSign(group int, spread, noise float64) float64 {
	if group < 2 || !(spread > 0) {
		return 0.5
	}
	signal := max(0, 1-float64(noise*noise)/float64(spread*spread))
	c := math.Sqrt((1 - 1/float64(group)) * signal)
	return arccos(c) / math.Pi
}

// GroupFor is the least group whose share of wrong signs is at most that; 0 where no group is large enough.
func GroupFor(share, spread, noise float64) int {
	for g := 2; g <= 256; g++ {
		if WrongSign(g, spread, noise) <= share {
			return g
		}
	}
	return 0
}

// arccos of 0 to 1, by halving: its text has three digits.
func arccos(c float64) float64 {
	low, high := 0.0, math.Pi/2
	for range 50 {
		if middle := (low + high) / 2; portable.Cos(middle) > c {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// Card: the share of the gradient that a step keeps. A step draws next = mean + τz, and its mean is a·x + b·v in the
// network's output v. So a change of v changes the log-probability of the drawn sample by z·b/τ an element, and the
// step keeps
//
//	|b|/τ        = √(Δ(1-s)/s)·(1/η + η/2) for Flow-SDE, as in Flow-GRPO's kernel: little near s = 1, where a large
//	               shift has most of its steps
//	2·|b|·τ      for CPS, whose log-probability leaves the deviation out
//
// A step that draws nothing keeps 0.
// Invariant (test): the formula for Flow-SDE at any step, and the derivative of sde's own log-probability.

// Keeps is the share of the gradient that each row keeps.
func Keeps(rows []sde.Row) []float64 {
	all := make([]float64, len(rows))
	for i, r := range rows {
		if r.Noise == 0 || r.Density == sde.None || r.Lags() > 0 {
			continue
		}
		var h sde.History
		h.Push([]float64{0}, []float64{0})
		mean := r.Mean(&h)
		drawn := []float64{mean[0] + r.Noise}
		all[i] = math.Abs(r.LogProbGrad(mean, drawn)[0] * r.Slope(&h)[0])
		if math.IsNaN(all[i]) || math.IsInf(all[i], 0) {
			all[i] = 0
		}
	}
	return all
}

// root is the root mean square of numbers; 0 of none.
func root(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v*v) / float64(len(x))
	}
	return math.Sqrt(sum)
}

// File is where a run keeps its Report.
const File = "diagnosis.json"

// A Report has the measurements and the findings.
type Report struct {
	Measured
	Findings []Finding `json:"findings"`
}

// most bounds a file that is read.
const most = 1 << 20

// Read reads a report; nil without one.
func Read(path string) (*Report, error) {
	text, err := regular.Read(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return &r, nil
}
