package sde

import (
	"math"
	"slices"
	"testing"
)

// TestTail: on MixGRPO's grid a compressed tail has the times that MixGRPO tells its network; on
// every grid the window's own steps stay as they are, and sigmas fall to 0.
func TestTail(t *testing.T) {
	window := []int{1, 2, 3}
	plan := Plan{Window: window, Inside: func(s Schedule, step int) Row { return FlowSDE(s, step, 0.7, 0) }, Outside: Euler,
		Flash: &Flash{Ratio: 0.4, Shift: 3, Whole: true, Solver: Multistep{Order: 2, LowerOrderFinal: true}}}
	s, rows := plan.Rows(Static(3, 25))
	if want := []float64{1000, 986, 971, 956, 940, 885, 818, 734, 627, 486, 290}; !slices.Equal(s.Timesteps, want) || len(rows) != len(want) {
		t.Errorf("times %v, want %v", s.Timesteps, want)
	}
	karras := DefaultFlow()
	karras.Karras = true
	for _, f := range []FlowOptions{DefaultFlow(), {Shift: 3, TrainSteps: 1000, SigmaMin: 0.003, SigmaMax: 1}, karras} {
		whole, err := Flow(f, 10, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		plan.Flash.Whole, plan.Flash.Ratio = false, 0.6
		s, rows := plan.Rows(whole)
		_, all := Plan{Window: window, Inside: plan.Inside, Outside: Euler}.Rows(whole)
		for _, step := range []int{0, 1, 2, 3} {
			if a, b := rows[step], all[step]; a.From != b.From || a.To != b.To || a.Noise != b.Noise || s.Timesteps[step] != whole.Timesteps[step] {
				t.Errorf("step %d became %+v from %+v", step, a, b)
			}
		}
		if len(s.Timesteps) != s.Steps() || s.Sigmas[s.Steps()] != 0 || s.Steps() != 3+4 {
			t.Errorf("%d steps, %d times, the last sigma %v", s.Steps(), len(s.Timesteps), s.Sigmas[s.Steps()])
		}
		for i := 1; i < len(s.Sigmas); i++ {
			if s.Sigmas[i] >= s.Sigmas[i-1] || i < s.Steps() && math.Abs(s.Timesteps[i]-1000*s.Sigmas[i]) > 1e-9 {
				t.Errorf("sigmas %v, times %v", s.Sigmas, s.Timesteps)
			}
		}
	}
}
