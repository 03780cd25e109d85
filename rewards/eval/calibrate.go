package eval

import (
	"cmp"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
)

// Card: how much does a difference of scores tell? A logistic of the difference,
//
//	P(a is better) = 1/(1 + exp(-slope·(s_a - s_b))),
//
// without an intercept, since a pair has no first one, is fitted by maximum likelihood (ties are
// half of each) with a normal prior of deviation 10 on the slope in units of the rms difference,
// without which separable pairs have no maximum. Each pair is predicted by a fit on other prompts
// (five parts). Confidence is the predicted probability that the higher score is better; pairs
// in order of confidence make up to eight bins of equal size, and
//
//	ECE = Σ bins (pairs of the bin / pairs) |share that was better - mean confidence|
//
// which is above 0 by chance alone where bins are small (Guo et al. 2017; Bradley and Terry 1952).
// Invariants (tests): labels drawn from the logistic give its slope back and a small ECE; labels
// that scores do not know give a slope of 0 within its interval.

// Calibration maps a difference of scores to a probability.
type Calibration struct {
	Slope *Interval `json:"slope"` // of the log-odds, for a unit of score
	ECE   *Interval `json:"ece"`
	Bins  []Bin     `json:"bins"`
}

// A Bin is pairs of like confidence.
type Bin struct {
	Pairs      int      `json:"pairs"`
	Confidence float64  `json:"confidence"`
	Better     Interval `json:"better"` // the share whose higher score was better
}

const (
	parts      = 5
	mostBins   = 8
	leastInBin = 8
	priorSD    = 10
)

func calibrate(pairs []judgedPair, key rng.Key) *Calibration {
	if len(pairs) < 2*leastInBin {
		return nil
	}
	all := make([]int, len(pairs))
	for i := range all {
		all[i] = i
	}
	slope := func(members []int) float64 { return fit(pairs, members) }
	c := &Calibration{Slope: interval(pairs, key.With("slope"), slope)}
	if c.Slope == nil {
		return nil // all scores are equal
	}
	type bet struct{ confidence, won float64 }
	bets := make([]bet, len(pairs))
	for part := range parts {
		var others, own []int
		for i, p := range pairs {
			if p.prompt%parts == part {
				own = append(own, i)
			} else {
				others = append(others, i)
			}
		}
		if len(others) == 0 {
			others = all // a single prompt: nothing is held out
		}
		k := fit(pairs, others)
		if math.IsNaN(k) {
			k = 0 // others are all equal, and say nothing
		}
		for _, i := range own {
			p := pairs[i]
			bets[i].confidence = logistic(k * math.Abs(p.gap()))
			switch v := p.gap() * p.Better.sign(); {
			case v > 0:
				bets[i].won = 1
			case v == 0:
				bets[i].won = 0.5
			}
		}
	}
	order := slices.SortedStableFunc(slices.Values(all), func(i, j int) int { return cmp.Compare(bets[i].confidence, bets[j].confidence) })
	n := min(mostBins, len(pairs)/leastInBin)
	bin := make([]int, len(pairs))
	for rank, i := range order {
		bin[i] = rank * n / len(order)
	}
	c.ECE = interval(pairs, key.With("ece"), func(members []int) float64 {
		gap := make([]float64, n)
		for _, m := range members {
			gap[bin[m]] += bets[m].won - bets[m].confidence
		}
		sum := 0.0
		for _, g := range gap {
			sum += math.Abs(g)
		}
		return sum / float64(len(members))
	})
	for b := range n {
		var own []judgedPair
		var won []float64
		x := Bin{}
		for _, i := range order {
			if bin[i] == b {
				own, won = append(own, pairs[i]), append(won, bets[i].won)
				x.Confidence += bets[i].confidence
			}
		}
		x.Pairs = len(own)
		x.Confidence /= float64(len(own))
		if i := share(own, key.With("bin").Sample(b), won); i != nil {
			x.Better = *i
		}
		c.Bins = append(c.Bins, x)
	}
	return c
}

func logistic(x float64) float64 { return 1 / (1 + portable.Exp(-x)) }

// fit is the slope of some pairs, by Newton's method: the likelihood is concave. NaN where all
// scores are equal.
func fit(pairs []judgedPair, members []int) float64 {
	rms := 0.0
	for _, m := range members {
		rms += pairs[m].gap() * pairs[m].gap() / float64(len(members))
	}
	rms = math.Sqrt(rms)
	if rms == 0 || math.IsInf(rms, 0) {
		return math.NaN()
	}
	k := 0.0
	for range 60 {
		slope, bend := -k/(priorSD*priorSD), -1.0/(priorSD*priorSD)
		for _, m := range members {
			x := pairs[m].gap() / rms
			p := logistic(k * x)
			slope += float64(x * ((1+pairs[m].Better.sign())/2 - p))
			bend -= float64(x * x * p * (1 - p))
		}
		step := min(max(slope/bend, -2), 2)
		k -= step
		if math.Abs(step) < 1e-9 {
			break
		}
	}
	if math.IsInf(k/rms, 0) {
		return math.NaN()
	}
	return k / rms
}
