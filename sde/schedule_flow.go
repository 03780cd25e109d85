package sde

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// FlowOptions are a flow schedule's settings, as diffusers' FlowMatchEulerDiscreteScheduler
// has them. Without given sigmas the base grid goes from the largest to the smallest sigma,
// which were shifted once when the scheduler was made, and is shifted again.
type FlowOptions struct {
	Shift              float64 `json:"shift"`
	Dynamic            bool    `json:"use_dynamic_shifting"` // the shift depends on the picture's size
	Linear             bool    `json:"-"`                    // time_shift_type "linear": mu itself; otherwise e^mu
	Terminal           float64 `json:"shift_terminal"`       // stretched so that the last sigma is this; 0: not
	Karras             bool    `json:"use_karras_sigmas"`
	Exponential        bool    `json:"use_exponential_sigmas"`
	Beta               bool    `json:"use_beta_sigmas"`
	Invert             bool    `json:"invert_sigmas"`
	TrainSteps         int     `json:"num_train_timesteps"`
	SigmaMin, SigmaMax float64 `json:"-"`
}

// DefaultFlow is a flow without a shift.
func DefaultFlow() FlowOptions {
	return FlowOptions{Shift: 1, TrainSteps: 1000, SigmaMin: 0.001, SigmaMax: 1}
}

// Flow makes a schedule of steps, or over given base sigmas (nil: the grid). mu is the
// dynamic shift's.
func Flow(o FlowOptions, steps int, base []float64, mu float64) (Schedule, error) {
	s := append([]float64(nil), base...)
	if base == nil {
		s = linspace(o.SigmaMax, o.SigmaMin, steps)
	}
	if len(s) == 0 {
		return Schedule{}, fmt.Errorf("a schedule of %d steps", len(s))
	}
	k := o.Shift
	if o.Dynamic {
		if k = mu; !o.Linear {
			k = portable.Exp(mu)
		}
	}
	for i, t := range s {
		if o.Dynamic {
			s[i] = k / (k + (1/t - 1))
		} else {
			s[i] = Shift(k, t)
		}
	}
	if o.Terminal != 0 {
		scale := (1 - s[len(s)-1]) / (1 - o.Terminal)
		if scale == 0 { // upstream divides 0 by 0
			return Schedule{}, fmt.Errorf("the last of %d sigmas is 1, and cannot be stretched to %v (shift_terminal): take 2 steps or more", len(s), o.Terminal)
		}
		for i := range s {
			s[i] = 1 - (1-s[i])/scale
		}
	}
	s = o.respace(s)
	end := 0.0
	if o.Invert {
		for i := range s {
			s[i] = 1 - s[i]
		}
		end = 1
	}
	all := Schedule{Sigmas: append(s, end)}
	for _, v := range s {
		all.Timesteps = append(all.Timesteps, v*float64(max(o.TrainSteps, 1)))
	}
	return all, nil
}

// respace puts as many sigmas between the first and the last by another rule.
func (o FlowOptions) respace(s []float64) []float64 {
	n, high, low := len(s), s[0], s[len(s)-1]
	switch {
	case o.Karras:
		const rho = 7
		a, b := portable.Pow(high, 1./rho), portable.Pow(low, 1./rho)
		for i, r := range linspace(0, 1, n) {
			s[i] = portable.Pow(a+float64(r*(b-a)), rho)
		}
	case o.Exponential:
		for i, l := range linspace(portable.Log(high), portable.Log(low), n) {
			s[i] = portable.Exp(l)
		}
	case o.Beta:
		for i, r := range linspace(0, 1, n) {
			s[i] = low + float64(betaQuantile(1-r, 0.6, 0.6)*(high-low))
		}
	}
	return s
}

// Static is a shifted grid from 1 to 0, as MixGRPO and DanceGRPO make it; its timesteps are
// the whole thousandths that fp32 arithmetic truncates to.
func Static(shift float64, steps int) Schedule {
	steps = max(steps, 0)
	s := Schedule{Sigmas: linspace(1, 0, steps+1)}
	for i, t := range s.Sigmas {
		s.Sigmas[i] = Shift(shift, t)
	}
	k := float32(shift)
	for _, t := range Linspace32(1, 0, steps+1)[:steps] {
		v := float32(k*t) / (1 + float32((k-1)*t))
		s.Timesteps = append(s.Timesteps, float64(int(float32(v*1000))))
	}
	return s
}

// DynamicShift is mu for a picture of tokens (FLUX): a line through two sizes, not clamped.
func DynamicShift(tokens, baseTokens, maxTokens int, baseShift, maxShift float64) float64 {
	m := (maxShift - baseShift) / float64(maxTokens-baseTokens)
	return float64(float64(tokens)*m) + baseShift - float64(m*float64(baseTokens))
}

// FlowHeun repeats every sigma but the first and the terminal one, for Heun.
func FlowHeun(shift float64, steps int) Schedule {
	s := linspace(1, Shift(shift, 1e-3), steps)
	var all Schedule
	for i, t := range s {
		v := Shift(shift, t)
		for range min(i+1, 2) {
			all.Sigmas, all.Timesteps = append(all.Sigmas, v), append(all.Timesteps, 1000*v)
		}
	}
	all.Sigmas = append(all.Sigmas, 0)
	return all
}

// FlowUniPC is UniPC's grid for flows: from just below 1. keepLast repeats the last sigma in
// place of the terminal 0 (final_sigmas_type "sigma_min").
func FlowUniPC(shift float64, steps int, keepLast bool) Schedule {
	if steps < 1 {
		return noSteps()
	}
	grid := linspace(1, 1./1000, steps+1)[:steps]
	for i, t := range grid {
		grid[i] = Shift(shift, t)
	}
	grid[0] -= 1e-6
	return truncated(grid, keepLast)
}

// FlowDPM is DPM-Solver's grid for flows (and UniPC's before diffusers 0.36).
func FlowDPM(shift float64, steps int, keepLast bool) Schedule {
	if steps < 1 {
		return noSteps()
	}
	a := linspace(1, 1./1000, steps+1)
	var grid []float64
	for i := steps; i > 0; i-- {
		grid = append(grid, Shift(shift, 1-a[i]))
	}
	return truncated(grid, keepLast)
}

// noSteps is a schedule without steps.
func noSteps() Schedule { return Schedule{Sigmas: []float64{0}} }

// truncated has whole timesteps.
func truncated(grid []float64, keepLast bool) Schedule {
	s := Schedule{Sigmas: append([]float64(nil), grid...)}
	for _, v := range grid {
		s.Timesteps = append(s.Timesteps, math.Trunc(v*1000))
	}
	end := 0.0
	if keepLast {
		end = grid[len(grid)-1]
	}
	s.Sigmas = append(s.Sigmas, end)
	return s
}

// Card: schedules of flows as diffusers' and the trainers' own code computes them, to the last bit. schedule_flow.go
// has the formulas in float64; upstream's sigmas are fp32, and a time is 1000 times the fp32 sigma, in fp32.
//
//	grid of the scheduler's own   float64 between ends that were rounded when the scheduler was made, then rounded
//	base sigmas of a pipeline     rounded, then shifted and stretched in fp32 (numpy keeps the array's type)
//	UniPC, DPM-Solver             float64, whole times cut off there, sigmas rounded; 1 - sigma is of the rounded one
//	static (DanceGRPO, MixGRPO)   fp32 from the first (PyTorch's linspace)
//
// Invariant (test): sigmas and times of every recorded pipeline are equal, bit for bit.

// FlowFP32 is FlowMatchEulerDiscreteScheduler's over its own grid, or over base sigmas (nil: the grid). mu is the
// dynamic shift's. SigmaMin and SigmaMax are worked out as the scheduler does.
func FlowFP32(o FlowOptions, steps int, base []float64, mu float64) (Schedule, error) {
	if base == nil {
		o.SigmaMin, o.SigmaMax = ends(o)
		s, err := Flow(o, steps, nil, mu)
		return rounded(s, o.TrainSteps), err
	}
	if o.Karras || o.Exponential || o.Beta || o.Invert {
		return Schedule{}, fmt.Errorf("base sigmas are spaced, and karras, exponential, beta and inverted sigmas are of the scheduler's own grid")
	}
	if _, err := Flow(o, len(base), base, mu); err != nil { // options that exclude a stretch
		return Schedule{}, err
	}
	k := o.Shift
	if o.Dynamic {
		if k = mu; !o.Linear {
			k = portable.Exp(mu)
		}
	}
	s := make([]float32, len(base))
	for i, t := range base {
		if t := float32(t); o.Dynamic {
			s[i] = float32(k) / (float32(k) + float32(1/t-1))
		} else {
			s[i] = shift32(k, t)
		}
	}
	if o.Terminal != 0 {
		scale := (1 - s[len(s)-1]) / float32(1-o.Terminal)
		for i := range s {
			s[i] = 1 - (1-s[i])/scale
		}
	}
	return rounded(Schedule{Sigmas: append(widened(s), 0)}, o.TrainSteps), nil
}

// DownFromOne is the base sigmas 1, ..., 1/n of pipelines, as numpy's linspace has them.
func DownFromOne(steps int) []float64 {
	s := make([]float64, max(steps, 0))
	end := 1 / float64(steps)
	for i := range s {
		s[i] = 1 + float64(float64(i)*((end-1)/float64(max(steps-1, 1))))
	}
	if steps > 1 {
		s[steps-1] = end
	}
	return s
}

// ends are the smallest and the largest sigma of the scheduler as it was made: shifted once, unless by a picture's
// size.
func ends(o FlowOptions) (low, high float64) {
	n := float32(max(o.TrainSteps, 1))
	a, b := 1/n, float32(1)
	if !o.Dynamic {
		a, b = shift32(o.Shift, a), shift32(o.Shift, b)
	}
	return float64(a), float64(b)
}

// shift32 is Shift in fp32.
func shift32(k float64, t float32) float32 {
	return float32(float32(k)*t) / (1 + float32(float32(k-1)*t))
}

func widened(s []float32) []float64 {
	all := make([]float64, len(s))
	for i, v := range s {
		all[i] = float64(v)
	}
	return all
}

// rounded has fp32 sigmas and times of them.
func rounded(s Schedule, trainSteps int) Schedule {
	s = whole(s)
	s.Timesteps = nil
	for _, v := range s.Sigmas[:max(len(s.Sigmas)-1, 0)] {
		s.Timesteps = append(s.Timesteps, float64(float32(float32(v)*float32(max(trainSteps, 1)))))
	}
	return s
}

// whole has fp32 sigmas, and the times that it had.
func whole(s Schedule) Schedule {
	for i, v := range s.Sigmas {
		s.Sigmas[i] = float64(float32(v))
	}
	return s
}

// UniPCFP32 is UniPC's grid for flows.
func UniPCFP32(shift float64, steps int, keepLast bool) Schedule {
	return whole(FlowUniPC(shift, steps, keepLast))
}

// DPMFP32 is DPM-Solver's.
func DPMFP32(shift float64, steps int, keepLast bool) Schedule {
	return whole(FlowDPM(shift, steps, keepLast))
}

// HeunFP32 returns FlowMatchHeunDiscreteScheduler's grid.
func HeunFP32(shift float64, steps int) Schedule {
	grid, err := FlowFP32(FlowOptions{Shift: shift, TrainSteps: 1000}, steps, nil, 0)
	if err != nil {
		return Schedule{Sigmas: []float64{0}}
	}
	var s Schedule
	for i, t := range grid.Timesteps {
		for range min(i+1, 2) {
			s.Sigmas, s.Timesteps = append(s.Sigmas, grid.Sigmas[i]), append(s.Timesteps, t)
		}
	}
	s.Sigmas = append(s.Sigmas, 0)
	return s
}

// StaticFP32 is the even grid from 1 to 0, shifted.
func StaticFP32(shift float64, steps int) Schedule {
	s := Static(shift, steps)
	for i, t := range Linspace32(1, 0, len(s.Sigmas)) {
		s.Sigmas[i] = float64(shift32(shift, t))
	}
	return s
}

// ShiftedGrid is SD3's.
var ShiftedGrid = Grid{Name: "shifted", Card: "diffusers' grid for flows, shifted (SD3, flow_grpo).", Build: spaced(func(*FlowOptions) {})}

// KarrasGrid is spaced by Karras's rule.
var KarrasGrid = Grid{Name: "karras", Card: "Sigmas spaced by Karras's rule between those of shifted.", Build: spaced(func(f *FlowOptions) { f.Karras = true })}

// ExponentialGrid is even in the logarithm.
var ExponentialGrid = Grid{Name: "exponential", Card: "Sigmas spaced evenly in their logarithm.", Build: spaced(func(f *FlowOptions) { f.Exponential = true })}

// BetaGrid is spaced by quantiles.
var BetaGrid = Grid{Name: "beta", Card: "Sigmas spaced by quantiles of a beta distribution.", Build: spaced(func(f *FlowOptions) { f.Beta = true })}

// StaticGrid returns DanceGRPO's grid.
var StaticGrid = Grid{Name: "static", Card: "An even grid from 1 to 0, shifted (DanceGRPO, MixGRPO, BranchGRPO).", Whole: true, Build: even(StaticFP32)}

// HeunGrid is for solvers of two calls.
var HeunGrid = Grid{Name: "heun", Card: "shifted, with every inner sigma twice, for the solver heun.", Calls: 2, Build: even(HeunFP32)}

// UniPCGrid returns Wan's grid.
var UniPCGrid = Grid{Name: "unipc", Card: "UniPC's grid for flows (Wan), from just below 1.", Whole: true,
	Build: even(func(k float64, n int) Schedule { return UniPCFP32(k, n, false) })}

// DPMGrid is DPM-Solver's.
var DPMGrid = Grid{Name: "dpm", Card: "DPM-Solver's grid for flows.", Whole: true,
	Build: even(func(k float64, n int) Schedule { return DPMFP32(k, n, false) })}

// DynamicOptions are the options of FLUX's grid alone.
type DynamicOptions struct {
	Tokens int `toml:"tokens" range:"[0,1e8]" doc:"of dynamic: patches of the picture, which decide the shift; 0: each picture's own"`
}

// mu is the shift of a picture: a line through 256 and 4096 tokens. 0 tokens are unknown, and count as a picture of
// 1024 x 1024.
func (o DynamicOptions) mu() float64 {
	tokens := o.Tokens
	if tokens == 0 {
		tokens = 4096
	}
	return DynamicShift(tokens, 256, 4096, 0.5, 1.15)
}

// DynamicGrid is FLUX's: an even base, shifted by the picture's size.
var DynamicGrid = Grid{
	Name: "dynamic", Card: "Shifted by the picture's size (FLUX, Qwen-Image in diffusers); tokens is the number of patches.",
	Options: DynamicOptions{}, Moved: func(o GridOptions) float64 { return portable.Exp(o.mu()) },
	Build: func(o GridOptions, steps int) (Schedule, error) {
		f := DefaultFlow()
		f.Dynamic = true
		return FlowFP32(f, steps, DownFromOne(steps), o.mu())
	},
}
