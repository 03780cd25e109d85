package eval

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Card: does a judge agree with itself? Pairs are asked about again, once with both samples exchanged and once as
// before. With prefers +1 where the one shown first scores higher, -1 where the second does, 0 where they are equal:
//
//	first      mean of (prefers + prefers when exchanged)/2: above 0 it likes the first,
//	           whatever it is; a judge that always names the first has 1
//	flipped    share of pairs whose better sample changes with the order
//	same       share of pairs with the same better sample when asked again
//	noise      mean change of a score that is asked for again, in typical differences of a prompt
//
// Rewards that look at one sample at a time, and always alike, have 0, 0, 1 and 0.
// Invariants (tests): a judge that always prefers the first has first = 1 and flips everything;
// one that draws its answers is the same about as often as chance has it.

// Swaps is the effect of exchanging both samples.
type Swaps struct {
	Pairs   int       `json:"pairs"`
	First   *Interval `json:"first"`
	Flipped *Interval `json:"flipped"`
}

// Repeats is the effect of asking again.
type Repeats struct {
	Pairs int       `json:"pairs"`
	Same  *Interval `json:"same"`
	Noise *float64  `json:"noise,omitempty"` // none where no two samples of a prompt differ
}

// twice is a pair with the scores of both times; those that were exchanged are back in place.
type twice struct{ before, after judgedPair }

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

func swapsOf(all []twice, key rng.Key) *Swaps {
	var pairs []judgedPair
	var first, flipped []float64
	for _, t := range all {
		one, other := sign(t.before.gap()), sign(t.after.gap())
		pairs = append(pairs, t.before)
		first = append(first, (one-other)/2)
		flipped = append(flipped, math.Min(1, math.Abs(one-other)))
	}
	return &Swaps{len(all), interval(pairs, key.With("first"), mean(first)), share(pairs, key.With("flipped"), flipped)}
}

func repeatsOf(all []twice, typical *float64, key rng.Key) *Repeats {
	var pairs []judgedPair
	var same []float64
	noise := 0.0
	for _, t := range all {
		pairs = append(pairs, t.before)
		same = append(same, 1-math.Min(1, math.Abs(sign(t.before.gap())-sign(t.after.gap()))))
		noise += (math.Abs(t.before.a-t.after.a) + math.Abs(t.before.b-t.after.b)) / float64(2*len(all))
	}
	r := &Repeats{Pairs: len(all), Same: share(pairs, key.With("same"), same)}
	if typical != nil && !math.IsInf(noise / *typical, 0) {
		noise /= *typical
		r.Noise = &noise
	}
	return r
}
