package loss

// Clipping is how far the ratio of new to old probabilities may go. Steps of a sampler, matching
// errors of noised samples and tokens share it:
//
//	clipped(A, r) = max(-A·r, -A·clip(r, 1-low, 1+high)); where A < 0 at most -A·dual
type Clipping struct {
	ClipBounds
	DualBound
}

// ClipBounds are the ends of the range.
type ClipBounds struct {
	ClipRange float64 `toml:"clip_range" range:"[0,1]" doc:"how far the ratio may fall below 1, and rise above it; for tokens ([episode]) it is 0.2 unless it is written"`
	ClipHigh  float64 `toml:"clip_high" range:"[0,1e3]" doc:"how far it may rise above 1, if not as far; 0: as far"`
}

// DualBound is the bound of a loss that a large ratio makes.
type DualBound struct {
	DualClip float64 `toml:"dual_clip" range:"[0,inf)" doc:"bound of the loss where the advantage is negative; 0: none"`
}

// Clipped is a range from 1 - low to 1 + high, where high 0 is low, and a bound.
func Clipped(low, high, dual float64) Clipping {
	return Clipping{ClipBounds{ClipRange: low, ClipHigh: high}, DualBound{DualClip: dual}}
}

// DefaultClipping is Flow-GRPO's, for the steps of a sampler.
func DefaultClipping() Clipping { return Clipped(1e-4, 0, 0) }

// DefaultTokenClipping is PPO's, for tokens.
func DefaultTokenClipping() Clipping { return Clipped(0.2, 0, 0) }

// Bounds are how far a ratio may fall below 1, and rise above it.
func (c Clipping) Bounds() (low, high float64) {
	if c.ClipHigh == 0 {
		return c.ClipRange, c.ClipRange
	}
	return c.ClipRange, c.ClipHigh
}

// checkRange reports a range that lets every ratio fall.
func (c Clipping) checkRange(usual string, report func(key, problem, hint string)) {
	if c.ClipRange >= 1 {
		report("clip_range", "at 1 or more a ratio is never too low", usual+" is usual")
	}
}

// checkDual reports a bound that cuts every loss. of is a thing that has an advantage.
func (c Clipping) checkDual(of string, report func(key, problem, hint string)) {
	if c.DualClip != 0 && c.DualClip <= 1 {
		report("dual_clip", "at 1 or less the loss of every "+of+" with a negative advantage is cut", "3 is usual")
	}
}

func (c Clipping) bounds() bounds {
	low, high := c.Bounds()
	return bounds{low: low, high: high, dual: c.DualClip}
}

// bounds are how far a ratio may go; samples of pictures and tokens share them.
type bounds struct{ low, high, dual, cap float64 }

// bounded is a loss, and its slope by the ratio.
type bounded struct {
	value, slope  float64
	clipped, dual bool
}

func (b bounds) loss(a, r float64) bounded {
	v := bounded{value: -a * r, slope: -a}
	if b.cap > 0 && r > b.cap {
		v = bounded{value: -a * b.cap}
	}
	within := min(max(r, 1-b.low), 1+b.high)
	if cut := -a * within; cut > v.value {
		v = bounded{value: cut, clipped: true}
		if within == r { // a cap may lie inside the clip
			v.slope = -a
		}
	}
	if a < 0 && b.dual > 0 && -a*b.dual < v.value {
		v.value, v.slope, v.dual = -a*b.dual, 0, true
	}
	return v
}
