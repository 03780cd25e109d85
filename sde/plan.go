package sde

import "slices"

// A sampler's plan: the steps of the window are stochastic and may be trained, the others
// deterministic. Flash (MixGRPO-Flash; Li et al., 2025) solves what follows the window by a
// multistep method on fewer points:
//
//	with L the window's last step, n = max(⌊(T-L)·Ratio⌋, 1) points from t = 1 - (L+1)/T to
//	0, shifted again, take the place of what follows sigma[L]
//
// Its history holds the predictions of all steps before. n = 1 leaves a final sigma that is
// not zero. All solves every step so ("apply = all").
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

// compress replaces what follows sigma[last].
func (f Flash) compress(s Schedule, last int) Schedule {
	t := s.Steps()
	n := max(int(float64(t-last)*f.Ratio), 1)
	from := 1 - float64(last+1)/float64(t)
	sigmas := slices.Clone(s.Sigmas[:last+1])
	for _, v := range linspace(from, 0, n) {
		sigmas = append(sigmas, Shift(f.Shift, v))
	}
	return Schedule{Sigmas: sigmas}
}
