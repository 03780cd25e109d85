package advantage

import "fmt"

// An Estimator is a rule that turns rewards into advantages, with its options. A published
// system is a setting of it.
type Estimator struct {
	// Rule is what a reward is judged by: "compare" (nearly all estimators: see Options),
	// "history" (DDPO), "tracker" (SPO), "best", "ends", "exponential" (RWR), "pass-at-k", "max-at-k" (PKPO), "beta"
	// (BNPO), "diversity" (GARDO), "opo", "gpg", "win-rate" (Pref-GRPO, by the rewards), or "reinforce++" and
	// "reinforce++-baseline" of samples that have one reward for all their decisions.
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
	switch e.Rule {
	case "compare", "":
		return func(r []float64) ([]float64, error) { return e.Options.Of(b.Groups, r) }, nil
	case "history", "tracker":
		if e.History == nil || e.How == "advantages" || e.How == "gdpo" {
			return nil, fmt.Errorf("estimator %s remembers one reward a sample: give it a History and combine the rewards first", e.Rule)
		}
		learn := e.History.Update
		if e.Rule == "tracker" {
			learn = e.History.Track
		}
		return func(r []float64) ([]float64, error) { return learn(e.Options, b.Prompts, r) }, nil
	case "best":
		return func(r []float64) ([]float64, error) { return Best(b.Groups, r), nil }, nil
	case "ends":
		return func(r []float64) ([]float64, error) { return Ends(b.Groups, r, e.Flat == "zero"), nil }, nil
	case "exponential":
		return func(r []float64) ([]float64, error) { return Exponential(b.Groups, r), nil }, nil
	case "pass-at-k":
		return func(r []float64) ([]float64, error) { return PassAtK(e.Options, b.Groups, r), nil }, nil
	case "max-at-k":
		return func(r []float64) ([]float64, error) { return MaxAtK(e.Options, e.K, b.Groups, r) }, nil
	case "beta":
		low, high := e.Range[0], e.Range[1]
		if low == high {
			low, high = 0, 1
		}
		return func(r []float64) ([]float64, error) { return Beta(b.Groups, r, low, high) }, nil
	case "diversity":
		return func(r []float64) ([]float64, error) { return Diversity(b.Groups, r, b.Features) }, nil
	case "opo":
		return func(r []float64) ([]float64, error) { return OPO(b.Groups, r, b.Lengths) }, nil
	case "gpg":
		norm := e.Norm
		if norm == 0 {
			norm = 1
		}
		return func(r []float64) ([]float64, error) { return GPG(b.Groups, r, norm) }, nil
	}
	return e.ranked(b)
}

// ranked are the rules that look at the whole batch, or at ranks.
func (e Estimator) ranked(b Batch) (each, error) {
	whiten := e.Whiten
	whiten.On = true
	switch e.Rule {
	case "win-rate":
		return func(r []float64) ([]float64, error) { return e.Options.Of(b.Groups, Versus(b.Groups, r, true)) }, nil
	case "reinforce++":
		return func(r []float64) ([]float64, error) { return whiten.Samples(r, b.Lengths) }, nil
	case "reinforce++-baseline":
		return func(r []float64) ([]float64, error) {
			a, err := e.Options.Of(b.Groups, r)
			if err != nil {
				return nil, err
			}
			return whiten.Samples(a, b.Lengths)
		}, nil
	}
	return nil, fmt.Errorf("there is no estimator %q: use compare, history, tracker, best, ends, exponential, pass-at-k, max-at-k, beta, diversity, opo, gpg, win-rate, reinforce++ or reinforce++-baseline", e.Rule)
}
