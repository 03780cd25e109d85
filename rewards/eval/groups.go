package eval

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Card: does the reward tell the samples of one prompt apart? Group-relative methods learn from
// these differences alone. Over prompts with at least two samples:
//
//	dead      share of prompts whose samples all have the same score
//	equal     share of pairs of samples with equal scores
//	within    share of the variance of all scores that lies within prompts
//	typical   median of the differences that are not 0, between samples of one prompt: the unit
//	          in which package eval measures which changes raise a score
//	contrast  mean score of the better less that of the worse, of labelled pairs, in typical
//	          differences
//
// Invariants (tests): scores that depend on the prompt alone are dead and have no variance within;
// adding a constant to a prompt's scores changes neither typical nor contrast.

// Groups is how samples of one prompt differ.
type Groups struct {
	Prompts  int       `json:"prompts"`
	Samples  int       `json:"samples"`
	Dead     float64   `json:"dead"`
	Equal    float64   `json:"equal"`
	Within   *float64  `json:"within,omitempty"`  // none where all scores are the same
	Typical  *float64  `json:"typical,omitempty"` // none where no two samples differ
	Contrast *Interval `json:"contrast,omitempty"`
}

// sampleScore is a reward's score of one sample of a prompt, on average over pairs.
type sampleScore struct {
	sum float64
	n   int
}

func groupsOf(pairs []judgedPair, key rng.Key) Groups {
	var order []int
	byPrompt := map[int]map[string]sampleScore{}
	for _, p := range pairs {
		if byPrompt[p.prompt] == nil {
			byPrompt[p.prompt] = map[string]sampleScore{}
			order = append(order, p.prompt)
		}
		own := byPrompt[p.prompt]
		for name, v := range map[string]float64{p.A.Name: p.a, p.B.Name: p.b} {
			own[name] = sampleScore{own[name].sum + v, own[name].n + 1}
		}
	}
	var g Groups
	var gaps, all []float64
	inside, equal, compared, dead := 0.0, 0, 0, 0
	for _, prompt := range order {
		var scores []float64
		for _, s := range byPrompt[prompt] {
			scores = append(scores, s.sum/float64(s.n))
		}
		if len(scores) < 2 {
			continue
		}
		slices.Sort(scores) // names have no order
		g.Prompts++
		g.Samples += len(scores)
		all = append(all, scores...)
		inside += squares(scores)
		for i, x := range scores {
			for _, y := range scores[:i] {
				compared++
				if x == y {
					equal++
				} else {
					gaps = append(gaps, x-y)
				}
			}
		}
		if scores[0] == scores[len(scores)-1] {
			dead++
		}
	}
	if g.Prompts == 0 {
		return g
	}
	g.Dead, g.Equal = float64(dead)/float64(g.Prompts), float64(equal)/float64(compared)
	if total := squares(all); total > 0 {
		share := inside / total
		g.Within = &share
	}
	if len(gaps) == 0 {
		return g
	}
	slices.Sort(gaps)
	typical := quantile(gaps, 0.5)
	g.Typical = &typical
	var ranked []judgedPair
	var lead []float64
	for _, p := range pairs {
		if p.Better != Tie {
			ranked, lead = append(ranked, p), append(lead, p.gap()*p.Better.sign()/typical)
		}
	}
	g.Contrast = interval(ranked, key.With("contrast"), mean(lead))
	return g
}

// squares is the sum of squared distances from the mean.
func squares(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	m, s := sum/float64(len(x)), 0.0
	for _, v := range x {
		s += float64((v - m) * (v - m))
	}
	if math.IsInf(s, 0) {
		return 0
	}
	return s
}
