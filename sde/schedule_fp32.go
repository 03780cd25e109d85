package sde

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/portable"
)

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
