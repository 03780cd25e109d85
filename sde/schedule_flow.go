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
