package sde

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// VPOptions are a variance-preserving schedule's settings, as diffusers has them.
type VPOptions struct {
	TrainSteps int     `json:"num_train_timesteps"`
	BetaStart  float64 `json:"beta_start"`
	BetaEnd    float64 `json:"beta_end"`
	Betas      string  `json:"beta_schedule"`    // "linear", "scaled_linear", "squaredcos_cap_v2"
	Spacing    string  `json:"timestep_spacing"` // "leading", "trailing", "linspace"
	Offset     int     `json:"steps_offset"`
	ZeroSNR    bool    `json:"rescale_betas_zero_snr"`
	AlphaOne   bool    `json:"set_alpha_to_one"` // the final share is 1, not that of step 0
}

// DefaultVP is diffusers' DDIMScheduler.
func DefaultVP() VPOptions {
	return VPOptions{TrainSteps: 1000, BetaStart: 0.0001, BetaEnd: 0.02, Betas: "linear", Spacing: "leading", AlphaOne: true}
}

// NoiseLevels are all betas, and the products of alphas.
func (o VPOptions) NoiseLevels() (betas, shares []float64, err error) {
	n := o.TrainSteps
	if n < 1 || n > 1<<20 {
		return nil, nil, fmt.Errorf("num_train_timesteps is %d", n)
	}
	switch o.Betas {
	case "linear":
		betas = linspace(o.BetaStart, o.BetaEnd, n)
	case "scaled_linear":
		for _, r := range linspace(math.Sqrt(o.BetaStart), math.Sqrt(o.BetaEnd), n) {
			betas = append(betas, r*r)
		}
	case "squaredcos_cap_v2":
		f := func(t float64) float64 { c := portable.Cos((t + 0.008) / 1.008 * math.Pi / 2); return c * c }
		for k := range n {
			betas = append(betas, math.Min(1-f(float64(k+1)/float64(n))/f(float64(k)/float64(n)), 0.999))
		}
	default:
		return nil, nil, fmt.Errorf("beta_schedule %q is not known: linear, scaled_linear and squaredcos_cap_v2 are", o.Betas)
	}
	if o.ZeroSNR {
		if betas, err = zeroSNR(betas); err != nil {
			return nil, nil, err
		}
	}
	product := 1.0
	for i, b := range betas {
		if !(b >= 0 && b <= 1) {
			return nil, nil, fmt.Errorf("beta_schedule %q from %v to %v has %v at step %d: shares of noise lie between 0 and 1", o.Betas, o.BetaStart, o.BetaEnd, b, i)
		}
		product *= 1 - b
		shares = append(shares, product)
	}
	return betas, shares, nil
}

// zeroSNR rescales so that the last step is noise alone and the first stays (Lin et al.,
// 2023).
func zeroSNR(betas []float64) ([]float64, error) {
	roots, product := make([]float64, len(betas)), 1.0
	for i, b := range betas {
		product *= 1 - b
		roots[i] = math.Sqrt(product)
	}
	first, last := roots[0], roots[len(roots)-1]
	if !(first > last) {
		return nil, fmt.Errorf("rescale_betas_zero_snr: the first and the last of %d steps have as much signal; num_train_timesteps must be at least 2, and the betas above 0", len(betas))
	}
	out, before := make([]float64, len(betas)), 1.0
	for i, r := range roots {
		a := (r - last) * (first / (first - last))
		a *= a
		out[i] = 1 - a/before
		before = a
	}
	return out, nil
}

// DDIMSteps is a schedule of steps. The step before timestep t is t - TrainSteps/T for every
// spacing, as diffusers has it.
func DDIMSteps(o VPOptions, steps int) (Schedule, []int, error) {
	_, shares, err := o.NoiseLevels()
	if err != nil {
		return Schedule{}, nil, err
	}
	n := o.TrainSteps
	if steps < 1 || steps > n {
		return Schedule{}, nil, fmt.Errorf("%d steps of %d: 1 to %d are possible", steps, n, n)
	}
	var s Schedule
	var before []int
	for i := range steps {
		var t int
		switch o.Spacing {
		case "leading":
			t = (steps-1-i)*(n/steps) + o.Offset
		case "trailing":
			t = int(math.RoundToEven(float64(n)-float64(i)*float64(n)/float64(steps))) - 1
		case "linspace":
			t = int(math.RoundToEven(linspace(0, float64(n-1), steps)[steps-1-i]))
		default:
			return Schedule{}, nil, fmt.Errorf("timestep_spacing %q is not known: leading, trailing and linspace are", o.Spacing)
		}
		if t < 0 || t >= n {
			return Schedule{}, nil, fmt.Errorf("timestep %d is not one of 0 to %d: steps_offset is %d", t, n-1, o.Offset)
		}
		prev, share := t-n/steps, shares[0]
		switch {
		case prev >= 0:
			share = shares[prev]
		case o.AlphaOne:
			share = 1
		}
		s.Timesteps, before = append(s.Timesteps, float64(t)), append(before, prev)
		s.Alpha, s.AlphaPrev = append(s.Alpha, shares[t]), append(s.AlphaPrev, share)
	}
	return s, before, nil
}

// LadderOptions are the options of a file's variance-preserving schedule.
type LadderOptions struct {
	Betas   string `toml:"betas" enum:"linear,scaled_linear,squaredcos_cap_v2" doc:"of ddpm: how noise grows"`
	Spacing string `toml:"spacing" enum:"leading,trailing,linspace" doc:"of ddpm: which of the thousand steps are taken"`
}

// VP are the settings with the ends of Stable Diffusion.
func (o LadderOptions) VP() VPOptions {
	v := DefaultVP()
	v.Betas, v.Spacing, v.BetaStart, v.BetaEnd, v.AlphaOne = o.Betas, o.Spacing, 0.00085, 0.012, false
	if v.Spacing == "leading" {
		v.Offset = 1
	}
	return v
}

// DDPMGrid is Stable Diffusion's.
var DDPMGrid = Grid{
	Name: "ddpm", Card: "Variance-preserving: steps of a ladder of a thousand (Stable Diffusion 1, 2, XL).",
	VP: true, Options: LadderOptions{},
	Build: func(o GridOptions, steps int) (Schedule, error) {
		s, _, err := DDIMSteps(o.VP(), steps)
		return s, err
	},
}
