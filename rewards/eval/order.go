package eval

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Card: does the reward put pairs in the order that people, or the procedure, did?
//
//	accuracy  share of pairs whose better one has the higher score; equal scores count half.
//	          Pairs labelled "tie" are left out
//	tau-b     (C - D) / sqrt((C + D + L)(C + D + S)), Kendall's over all pairs: C agree, D
//	          disagree, L have a tied label and different scores, S equal scores and no tied label
//
// Invariants (tests): a reward that knows the labels has 1 and 1, its negative 0 and -1, a
// constant one 1/2 and no tau; the order within pairs does not matter.

// Order is how well scores agree with labels.
type Order struct {
	Pairs    int       `json:"pairs"` // with a better one
	Equal    int       `json:"equal_scores"`
	Accuracy *Interval `json:"accuracy"`
	Tau      *Interval `json:"tau_b"`
	Ties     *Ties     `json:"ties,omitempty"`
}

// A KindOrder is the accuracy on pairs of one kind.
type KindOrder struct {
	Kind     string    `json:"kind"`
	Pairs    int       `json:"pairs"`
	Accuracy *Interval `json:"accuracy"`
	WithTies *Interval `json:"with_ties,omitempty"` // at the limit of all pairs
}

// level is the confidence of intervals.
const level = 0.95

// judgedPair is a pair with both scores.
type judgedPair struct {
	Pair
	prompt int
	a, b   float64
}

// gap is the score of the first less that of the second.
func (p judgedPair) gap() float64 { return p.a - p.b }

// agrees is 1 where the better one has the higher score, a half where scores are equal.
func (p judgedPair) agrees() float64 {
	switch v := p.gap() * p.Better.sign(); {
	case v > 0:
		return 1
	case v < 0:
		return 0
	}
	return 0.5
}

func promptsOf(pairs []judgedPair) []int {
	of := make([]int, len(pairs))
	for i, p := range pairs {
		of[i] = p.prompt
	}
	return of
}

// interval is a bootstrap of pairs, nil where there is no number.
func interval(pairs []judgedPair, key rng.Key, number func(members []int) float64) *Interval {
	if len(pairs) == 0 {
		return nil
	}
	if i, ok := bootstrap(promptsOf(pairs), level, key, number); ok {
		return &i
	}
	return nil
}

// share is the interval of a share of pairs, nil without pairs.
func share(pairs []judgedPair, key rng.Key, x []float64) *Interval {
	if len(pairs) == 0 {
		return nil
	}
	i := ShareOf(x, promptsOf(pairs), level, key)
	return &i
}

func orderOf(pairs []judgedPair, tied *float64, key rng.Key) Order {
	ranked := slices.DeleteFunc(slices.Clone(pairs), func(p judgedPair) bool { return p.Better == Tie })
	o := Order{Pairs: len(ranked)}
	for _, p := range ranked {
		if p.gap() == 0 {
			o.Equal++
		}
	}
	o.Accuracy = accuracy(ranked, key.With("accuracy"))
	o.Ties = tiesOf(pairs, tied, key)
	o.Tau = interval(pairs, key.With("tau"), func(members []int) float64 { return tau(pairs, members) })
	return o
}

func accuracy(ranked []judgedPair, key rng.Key) *Interval {
	agree := make([]float64, len(ranked))
	for i, p := range ranked {
		agree[i] = p.agrees()
	}
	return share(ranked, key, agree)
}

// tau is NaN where one side is always tied.
func tau(pairs []judgedPair, members []int) float64 {
	var agree, disagree, labels, scores float64
	for _, m := range members {
		p := pairs[m]
		switch label, gap := p.Better.sign(), p.gap(); {
		case label == 0 && gap == 0:
		case label == 0:
			labels++
		case gap == 0:
			scores++
		case label*gap > 0:
			agree++
		default:
			disagree++
		}
	}
	return (agree - disagree) / math.Sqrt((agree+disagree+labels)*(agree+disagree+scores))
}

// byKind is the accuracy of each kind, as kinds first come.
func byKind(pairs []judgedPair, ties *Ties, key rng.Key) []KindOrder {
	var kinds []string
	of, all := map[string][]judgedPair{}, map[string][]judgedPair{}
	for _, p := range pairs {
		if p.Kind == "" {
			continue
		}
		if all[p.Kind] = append(all[p.Kind], p); p.Better == Tie {
			continue
		}
		if of[p.Kind] == nil {
			kinds = append(kinds, p.Kind)
		}
		of[p.Kind] = append(of[p.Kind], p)
	}
	var out []KindOrder
	for i, k := range kinds {
		o := KindOrder{Kind: k, Pairs: len(of[k]), Accuracy: accuracy(of[k], key.With("kind").Sample(i))}
		if ties != nil {
			o.WithTies = share(all[k], key.With("kind with ties").Sample(i), worths(all[k], ties.Limit, withTies))
		}
		out = append(out, o)
	}
	return out
}
