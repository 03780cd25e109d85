package trainer

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/sde"
)

// The ways of published methods from what was rolled to a picture, for RewardGradient.
//
//	Direct     SRPO's Direct-Align (Shen et al., 2025): a finished sample x0 with known noise e,
//	           one step between the sigmas a and b, and the noise taken off again:
//	           x_a = a·e + (1-a)·x0,  x0' = (x_a + (b-a)·v - b·e)/(1-b)
//	           towards the picture (b < a), and, against, towards noise (b > a), where the
//	           reward's sign is turned. Upstream takes turns; here each sample goes both ways
//	Predicted  ReFL (Xu et al., 2023): the clean sample that the network's answer at one of the
//	           recorded steps predicts
//	Last       DRaFT-K (Clark et al., 2023): the recorded steps, which are the last ones, made
//	           once more; what they drew stays. K = 1 is DRaFT-1
//
// Invariants (tests): Direct's leg is its formula; with the weights that rolled, Last ends
// at the sample's final state, bit for bit.

// Direct makes ways of Direct-Align.
type Direct struct {
	// Draw is a sigma, the noisier of the two, and the noise of a sample, the n-th of Times.
	Draw  func(k Key, n int) (sigma float64, noise []float64)
	Times int // of each sample; 0: 1
	Step  float64
	Both  bool    // each sample goes against, too
	Unit  float64 // what the network is told at sigma 1; 0: 1
}

// Ways is RewardGradient.Ways.
func (d Direct) Ways(samples []Sample) ([]GradientPath, error) {
	unit := d.Unit
	if unit == 0 {
		unit = 1
	}
	var ways []GradientPath
	for n := range max(1, d.Times) {
		for i, s := range samples {
			high, noise := d.Draw(s.Key, n)
			low := high - d.Step
			if low < 0 || high >= 1 || d.Step <= 0 {
				return nil, fmt.Errorf("a step between the sigmas %v and %v: both must be at least 0 and below 1", low, high)
			}
			one := func(a, b float64) GradientPath {
				taken := make([]float64, len(noise))
				for e, z := range noise {
					taken[e] = -b * z / (1 - b)
				}
				return GradientPath{Sample: i, Key: s.Key, State: sde.Mixed(1-a, a, s.Item.Final, noise), Against: b > a,
					Legs: []Segment{{Time: unit * a, X: 1 / (1 - b), Out: (b - a) / (1 - b), Add: taken}}}
			}
			ways = append(ways, one(high, low))
			if d.Both {
				ways = append(ways, one(low, high))
			}
		}
	}
	return ways, nil
}

// Predicted makes ways of ReFL; choose draws which of n recorded steps.
type Predicted struct {
	Rows   []sde.Row
	RowsOf func(k Key) []sde.Row // nil: Rows
	Choose func(k Key, n int) int
}

// Ways is RewardGradient.Ways.
func (p Predicted) Ways(samples []Sample) ([]GradientPath, error) {
	var ways []GradientPath
	for i, s := range samples {
		d := s.Decisions
		if len(d.Step) == 0 {
			return nil, fmt.Errorf("no step of sample %d was recorded", i)
		}
		k := p.Choose(s.Key, len(d.Step))
		row, err := oneStep(rowsOf(p.Rows, p.RowsOf, s.Key), d.Step[k])
		if err != nil {
			return nil, err
		}
		if len(row.Clean.Out) == 0 || row.Clamp != nil {
			return nil, fmt.Errorf("step %d of the sampler predicts no clean sample that a gradient could go through", d.Step[k])
		}
		leg := Segment{Time: d.Time[k], Out: row.Clean.Out[0]}
		if len(row.Clean.X) > 0 {
			leg.X = row.Clean.X[0]
		}
		ways = append(ways, GradientPath{Sample: i, Key: s.Key, State: d.State[k], Legs: []Segment{leg}})
	}
	return ways, nil
}

// Last makes ways of DRaFT-K.
type Last struct {
	Rows   []sde.Row
	RowsOf func(k Key) []sde.Row // nil: Rows
}

// Ways is RewardGradient.Ways.
func (l Last) Ways(samples []Sample) ([]GradientPath, error) {
	var ways []GradientPath
	for i, s := range samples {
		d := s.Decisions
		w, rows := GradientPath{Sample: i, Key: s.Key}, rowsOf(l.Rows, l.RowsOf, s.Key)
		for k, step := range d.Step {
			if want := len(rows) - len(d.Step) + k; step != want {
				return nil, fmt.Errorf("step %d of sample %d was recorded where step %d was expected: the last steps are gone through", step, i, want)
			}
			row, err := oneStep(rows, step)
			if err != nil {
				return nil, err
			}
			leg := Segment{Time: d.Time[k]}
			for _, m := range []struct {
				from []float64
				to   *float64
			}{{row.Next.X, &leg.X}, {row.Next.Y, &leg.X}, {row.Next.Out, &leg.Out}} {
				if len(m.from) > 0 {
					*m.to += m.from[0]
				}
			}
			if row.Stochastic() {
				leg.Add = make([]float64, len(d.Choice[k]))
				for e, c := range d.Choice[k] {
					leg.Add[e] = c - d.Mean[k][e]
				}
			}
			w.Legs = append(w.Legs, leg)
		}
		if len(w.Legs) == 0 {
			return nil, fmt.Errorf("no step of sample %d was recorded", i)
		}
		w.State = d.State[0]
		ways = append(ways, w)
	}
	return ways, nil
}

// rowsOf are the rows that a sample was made by: its own, where schedules depend on the sample.
func rowsOf(all []sde.Row, of func(k Key) []sde.Row, k Key) []sde.Row {
	if of == nil {
		return all
	}
	return of(k)
}

// oneStep is a row that looks at nothing but its own step.
func oneStep(rows []sde.Row, step int) (sde.Row, error) {
	switch {
	case step < 0 || step >= len(rows):
		return sde.Row{}, fmt.Errorf("step %d was recorded, and the sampler has %d", step, len(rows))
	case rows[step].Lags() > 0 || rows[step].Correct != nil || rows[step].Clamp != nil:
		return sde.Row{}, fmt.Errorf("step %d of the sampler looks back at other steps, or cuts what it predicts: a one-step solver such as euler leads a gradient back", step)
	}
	return rows[step], nil
}
