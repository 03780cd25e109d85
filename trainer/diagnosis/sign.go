package diagnosis

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: how often an advantage has the wrong sign. Samples of a prompt have normal totals of deviation S, of which the
// part N is noise of the reward (it would say something else if it were asked again). A sample's true advantage is its
// noiseless total less the prompt's true mean; what is trained on is its total less the mean of its group of G. Both
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

// arccos of 0 to 1, by halving: what is said of it has three digits.
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
