package sde

import (
	"math"
	"slices"
)

// A sampler's plan: the steps of the window are stochastic and may be trained, the others
// deterministic. Flash (MixGRPO-Flash; Li et al., 2025) solves the steps behind the window by a multistep method on
// fewer points:
//
//	with L the window's last step, n = max(⌊(T-L)·Ratio⌋, 1) points from sigma[L+1] to 0, even
//	before the shift, take the place of the points behind sigma[L]
//
// so that the window's own steps stay as they are (on MixGRPO's static grid this is its 1 -
// (L+1)/T, shifted; other grids of ours need not be even). Its history holds the predictions
// of all steps before. n = 1 leaves a final sigma that is not zero. All solves every step so
// ("apply = all").
type Plan struct {
	Window          []int
	Inside, Outside func(s Schedule, step int) Row
	Flash           *Flash
}

// Flash is the compressed tail.
type Flash struct {
	Ratio, Shift float64
	All          bool
	Solver       Multistep
	Whole        bool // timesteps of the tail are whole numbers, as those of the schedule
}

// Rows are the schedule that is used, and its steps.
func (p Plan) Rows(s Schedule) (Schedule, []Row) {
	last := -1
	for _, step := range p.Window {
		last = max(last, step)
	}
	if f := p.Flash; f != nil && !f.All && last >= 0 {
		s = f.compress(s, last)
	}
	var rows []Row
	for step := range s.Steps() {
		switch {
		case p.Flash != nil && (p.Flash.All || step > last):
			rows = append(rows, p.Flash.Solver.Row(s, step))
		case slices.Contains(p.Window, step):
			rows = append(rows, p.Inside(s, step))
		default:
			rows = append(rows, p.Outside(s, step))
		}
	}
	return s, rows
}

// compress replaces the points behind sigma[last].
func (f Flash) compress(s Schedule, last int) Schedule {
	t := s.Steps()
	n := max(int(float64(t-last)*f.Ratio), 1)
	tail := Schedule{Sigmas: slices.Clone(s.Sigmas[:last+2])}
	from := Shift(1/f.Shift, s.Sigmas[last+1]) // before the shift
	for _, v := range linspace(from, 0, n)[1:] {
		tail.Sigmas = append(tail.Sigmas, Shift(f.Shift, v))
	}
	if s.Timesteps == nil {
		return tail
	}
	tail.Timesteps = slices.Clone(s.Timesteps[:last+1])
	for _, v := range tail.Sigmas[last+1 : tail.Steps()] {
		time := 1000 * v
		if f.Whole {
			time = math.Trunc(float64(float32(v) * 1000))
		}
		tail.Timesteps = append(tail.Timesteps, time)
	}
	return tail
}
