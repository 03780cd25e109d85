package sde

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// Schedule is the times that a sampler stops at.
type Schedule struct {
	// Sigmas are T+1: of noise in flows, from 1 (noise alone) to the terminal value.
	Sigmas []float64
	// Timesteps are the network's input at each of the T steps.
	Timesteps []float64
	// Alpha and AlphaPrev are the shares of signal (products of alphas) before and after
	// each of the T steps of a variance-preserving schedule; nil for flows. A step need not
	// begin where the one before it ended: spacings round.
	Alpha, AlphaPrev []float64
}

// Steps is T.
func (s Schedule) Steps() int {
	if s.Alpha != nil {
		return len(s.Alpha)
	}
	return len(s.Sigmas) - 1
}

// Shift moves times towards noise: k·t / (1 + (k-1)·t). k = 1 is the identity.
func Shift(k, t float64) float64 { return k * t / (1 + float64((k-1)*t)) }

// linspace is n numbers from a to b.
func linspace(a, b float64, n int) []float64 {
	x := make([]float64, max(n, 0))
	for i := range x {
		x[i] = a
		if n > 1 {
			x[i] = a + (b-a)*float64(i)/float64(n-1)
		}
	}
	if n > 1 {
		x[n-1] = b
	}
	return x
}

// Linspace32 is PyTorch's: fp32, with one rounding of a product and a sum, and counted from its end in the second half.
func Linspace32(a, b float32, n int) []float32 {
	x := make([]float32, max(n, 0))
	step := float32(0)
	if n > 1 {
		step = (b - a) / float32(n-1)
	}
	for i := range x {
		if from := float64(step); i < n/2 {
			x[i] = float32(float64(a) + float64(from*float64(i)))
		} else {
			x[i] = float32(float64(b) - float64(from*float64(n-1-i)))
		}
	}
	return x
}

// lambda is half the logarithm of the signal-to-noise ratio of a flow.
func lambda(sigma float64) float64 { return portable.Log(1-sigma) - portable.Log(sigma) }

// A Grid is a way to place the times of a schedule. Its value is below its formula; Grids lists all of them.
type Grid struct {
	Name string
	Card string // a sentence: its kind and its source

	VP    bool // variance-preserving; the others are for flows
	Whole bool // timesteps are whole numbers
	Calls int  // how often every inner time is listed, for solvers of as many calls; 0: once

	Options any                         // a struct of the option structs that it reads beside the shift; nil: none
	Moved   func(o GridOptions) float64 // how far times are moved towards noise; nil: o.Shift
	Build   func(o GridOptions, steps int) (Schedule, error)
}

// GridOptions are the options of all grids, as one table of a file has them.
type GridOptions struct {
	Shift float64 `toml:"shift" range:"(0,inf)" doc:"towards noise; 1 leaves the times even"`
	DynamicOptions
	LadderOptions
}

// DefaultGridOptions are SD3's shift, and Stable Diffusion's betas.
func DefaultGridOptions() GridOptions {
	return GridOptions{Shift: 3, LadderOptions: LadderOptions{Betas: "scaled_linear", Spacing: "leading"}}
}

// Grids are all grids.
func Grids() []Grid {
	return []Grid{
		ShiftedGrid,
		StaticGrid,
		DynamicGrid,
		KarrasGrid,
		ExponentialGrid,
		BetaGrid,
		HeunGrid,
		UniPCGrid,
		DPMGrid,
		DDPMGrid,
	}
}

// Shifted is how far the grid's times are moved towards noise.
func (g Grid) Shifted(o GridOptions) float64 {
	if g.Moved != nil {
		return g.Moved(o)
	}
	return o.Shift
}

// even is a grid that its shift and its number of steps decide.
func even(place func(shift float64, steps int) Schedule) func(GridOptions, int) (Schedule, error) {
	return func(o GridOptions, steps int) (Schedule, error) { return place(o.Shift, steps), nil }
}

// spaced is diffusers' shifted grid with other spacing.
func spaced(space func(*FlowOptions)) func(GridOptions, int) (Schedule, error) {
	return func(o GridOptions, steps int) (Schedule, error) {
		f := DefaultFlow()
		f.Shift = o.Shift
		space(&f)
		return FlowFP32(f, steps, nil, 0)
	}
}

// GridNamed is the grid of a name.
func GridNamed(name string) (Grid, bool) {
	all := Grids()
	i := slices.IndexFunc(all, func(g Grid) bool { return g.Name == name })
	if i < 0 {
		return Grid{}, false
	}
	return all[i], true
}

// Quantiles that schedules ask for.

// betaQuantile inverts the regularised incomplete beta function by bisection.
// Invariant (test): betaCDF of it is p.
func betaQuantile(p, a, b float64) float64 {
	if p <= 0 {
		return 0
	}
	if p >= 1 {
		return 1
	}
	low, high := 0.0, 1.0
	for range 200 {
		mid := (low + high) / 2
		if mid == low || mid == high {
			break
		}
		if betaCDF(mid, a, b) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// betaCDF is the regularised incomplete beta function, by its continued fraction (Lentz).
func betaCDF(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaCDF(1-x, b, a)
	}
	front := portable.Exp(logGamma(a+b)-logGamma(a)-logGamma(b)+float64(a*portable.Log(x))+float64(b*portable.Log(1-x))) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := 0; i <= 300; i++ {
		m := float64(i / 2)
		var numerator float64
		switch {
		case i == 0:
			numerator = 1
		case i%2 == 0:
			numerator = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			numerator = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 + float64(numerator*d)
		if math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		c = 1 + numerator/c
		if math.Abs(c) < tiny {
			c = tiny
		}
		f *= float64(c * d)
		if math.Abs(1-float64(c*d)) < 1e-16 {
			break
		}
	}
	return front * (f - 1)
}

// logGamma is the logarithm of the gamma function for x > 0: Stirling's series at x + n ≥ 12,
// less log x(x+1)...(x+n-1).
func logGamma(x float64) float64 {
	product := 1.0
	for ; x < 12; x++ {
		product *= x
	}
	r := 1 / x
	z := float64(r * r)
	series := 1./1260 - float64(z*(1./1680-float64(z*(1./1188-float64(z*(691./360360))))))
	series = float64(r * (1./12 - float64(z*(1./360-float64(z*series)))))
	return float64((x-0.5)*portable.Log(x)) - x + logRoot2Pi + series - portable.Log(product)
}

// normalQuantile is the standard normal's.
func normalQuantile(p float64) float64 { return math.Sqrt2 * portable.Erfinv(2*p-1) }
