package eval

import (
	"cmp"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Card: accuracy where labels may be ties. Two scores are tied where they differ by at most a limit. Of a pair
//
//	with ties  1 where it is tied in labels and scores, or in the order of its label; else 0 (Deutsch et al. 2023,
//	           acc_eq; VideoGen-RewardBench, GenAI-Bench)
//	points     1 where label and scores say the same, 1/2 where one of them is a tie, else 0 (Pick-a-Pic)
//
// The limit is given, or it is the one of 0 and all differences that makes the mean largest, the smallest of several.
// Such a limit flatters a little, as it is chosen on the pairs that it is measured on: publications of VideoGen-
// RewardBench do the same, Pick-a-Pic chooses on another split. VideoAlign's program differs where differences are
// equal (it counts some of these as tied, others not) and never leaves all untied.
// Invariants (tests): the best limit of all by trying each; a reward that knows the labels has 1; without tied labels
// and equal scores both are the accuracy.

// Ties is how well scores agree with labels, of which some are ties.
type Ties struct {
	Pairs    int       `json:"pairs"`
	Labelled int       `json:"tied_labels"`
	Accuracy *Interval `json:"with_ties"`
	Limit    float64   `json:"limit"`
	Points   *Interval `json:"points"`
	Half     float64   `json:"limit_of_points"`
}

// withTies is 1 where label and scores say the same.
func withTies(p judgedPair, tied bool) float64 {
	if tied == (p.Better == Tie) && (tied || p.agrees() == 1) {
		return 1
	}
	return 0
}

// points is 1 where label and scores say the same, and 1/2 where one of them is a tie.
func points(p judgedPair, tied bool) float64 {
	if tied != (p.Better == Tie) {
		return 0.5
	}
	return withTies(p, tied)
}

// bestLimit is the limit with the largest sum of a worth.
func bestLimit(pairs []judgedPair, worth func(p judgedPair, tied bool) float64) float64 {
	sorted := slices.Clone(pairs)
	slices.SortStableFunc(sorted, func(a, b judgedPair) int { return cmp.Compare(math.Abs(a.gap()), math.Abs(b.gap())) })
	gain, most, limit := 0.0, math.Inf(-1), 0.0 // of ties over no ties
	for i, p := range sorted {
		gap := math.Abs(p.gap())
		if gap > 0 && math.IsInf(most, -1) {
			most = gain
		}
		gain += worth(p, true) - worth(p, false)
		if last := i+1 == len(sorted) || math.Abs(sorted[i+1].gap()) > gap; last && gain > most {
			most, limit = gain, gap
		}
	}
	return limit
}

// worths are the worth of each pair by a limit.
func worths(pairs []judgedPair, limit float64, worth func(p judgedPair, tied bool) float64) []float64 {
	out := make([]float64, len(pairs))
	for i, p := range pairs {
		out[i] = worth(p, math.Abs(p.gap()) <= limit)
	}
	return out
}

// tiesOf is nil where no label is a tie.
func tiesOf(pairs []judgedPair, given *float64, key rng.Key) *Ties {
	t := Ties{Pairs: len(pairs)}
	for _, p := range pairs {
		if p.Better == Tie {
			t.Labelled++
		}
	}
	if t.Labelled == 0 {
		return nil
	}
	t.Limit, t.Half = bestLimit(pairs, withTies), bestLimit(pairs, points)
	if given != nil {
		t.Limit, t.Half = *given, *given
	}
	t.Accuracy = share(pairs, key.With("with ties"), worths(pairs, t.Limit, withTies))
	t.Points = share(pairs, key.With("points"), worths(pairs, t.Half, points))
	return &t
}
