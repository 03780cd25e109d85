package advantage

import (
	"fmt"
	"strings"
)

// An Estimator is a rule that turns rewards into advantages, with its options. A published
// system is a setting of it.
type Estimator struct {
	// Rule is "compare" for those that Options say, or the name of one of Rules that has a function of its own.
	Rule string
	Options
	Several
	History *History   // what the rules history and tracker remember
	Norm    float64    // of gpg; 0 is 1
	K       int        // of max-at-k
	Keep    *Keep      // who is compared; nil: all
	Range   [2]float64 // of beta: what a reward can be; equal ends are [0, 1]
	Whiten  Whiten     // of reinforce++: over as many decisions as Batch.Lengths says
}

// Advantages is an advantage a sample, and what a monitor wants to know of the rewards. A
// sample whose reward is missing has NaN.
func (e Estimator) Advantages(b Batch) ([]float64, Stats, error) {
	if err := b.check(); err != nil {
		return nil, Stats{}, err
	}
	sum, err := e.Add(b.Rewards, b.weights())
	if err != nil {
		return nil, Stats{}, err
	}
	if e.Keep != nil {
		if b.Rewards, err = e.Keep.kept(b, sum); err != nil {
			return nil, Stats{}, err
		}
	}
	clip := e.Options
	e.Clip = 0 // of the sum, not of every reward
	of, err := e.each(b)
	if err != nil {
		return nil, Stats{}, err
	}
	a, err := e.Several.Of(b.Groups, b.Rewards, b.weights(), of, e.Options)
	for i := range a {
		a[i] = clip.clipped(a[i])
	}
	return a, Measure(b.Groups, sum), err
}

// each is the rule for one reward of a batch.
func (e Estimator) each(b Batch) (each, error) {
	if e.Rule == "compare" || e.Rule == "" {
		return func(r []float64) ([]float64, error) { return e.Options.Of(b.Groups, r) }, nil
	}
	var names []string
	for _, r := range Rules() {
		compare := r.Outcome
		if r.Samples != nil {
			compare = r.Samples
		}
		if compare == nil {
			continue
		}
		if names = append(names, r.Name); r.Name == e.Rule {
			return compare(e, b)
		}
	}
	return nil, fmt.Errorf("there is no estimator %q: use compare, %s", e.Rule, strings.Join(names, ", "))
}
