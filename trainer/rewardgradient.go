package trainer

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/vision"
)

// RewardGradient follows the gradient of the reward itself: the network's outputs lead to a final state, the state is
// developed to a picture, and the reward's gradient at the picture's numbers goes back through the development and
// the outputs.
//
//	way       x_0 given; x_{k+1} = X_k·x_k + Out_k·v(x_k, t_k) + Add_k; the last is developed
//	loss      mean over ways of -reward, or max(margin - reward, 0)
//
// Published methods differ in the beginning and the length of their paths: SRPO's Direct-Align goes from a finished
// sample with known noise over one step, ReFL from one of the last steps to the clean sample predicted there, DRaFT-K
// over the last K steps (package loss has their ways).
//
// Advantages are not read. Invariant (tests): gradients agree with finite differences.
type RewardGradient struct {
	Developer
	Ways func(samples []Sample) ([]GradientPath, error)
	// Reward judges pictures, the first of which is of way number from: values, and their
	// gradients at the pictures' numbers.
	Reward func(ways []GradientPath, pictures []vision.Pixels) (values []float64, grads [][]float32, err error)
	Margin *float64 // above it a reward is good enough; nil: never
}

// A Developer is a policy whose states become pictures by functions with derivatives.
type Developer interface {
	// Develop makes pictures of the final states of keys, asks at for the derivatives at those of a batch,
	// the first of which is number from, and takes them back to the states.
	Develop(of []Key, finals [][]float64, at func(from int, pictures []vision.Pixels) ([][]float32, error)) ([][]float64, error)
	// Pull asks as Eval does of the current weights, and takes gradients at the outputs back: to
	// Params' gradient, to which it adds, and to the points' states.
	Pull(at []Point, grads [][]float64) (states [][]float64, err error)
}

// A GradientPath leads from a state to a final one.
type GradientPath struct {
	Sample  int // number of the sample that it comes of
	Key     Key // whose prompt
	State   []float64
	Legs    []Segment
	Against bool // it goes towards noise, where the reward's sign is turned (SRPO's inversion)
}

// A Segment is one answer of the network: next = X·x + Out·v + Add.
type Segment struct {
	Time   float64 // the network's time input
	X, Out float64
	Add    []float64 // nil: nothing
}

// next is where a leg ends, at the precision that states have.
func (l Segment) next(x, v []float64) []float64 {
	y := make([]float64, len(x))
	for i := range y {
		n := float64(l.X*x[i]) + float64(l.Out*v[i])
		if l.Add != nil {
			n += l.Add[i]
		}
		y[i] = float64(float32(n))
	}
	return y
}

// Evaluate implements Objective.
func (o RewardGradient) Evaluate(p Policy, samples []Sample, _ []float64) (LossResult, error) {
	ways, err := o.Ways(samples)
	if err != nil {
		return LossResult{}, err
	}
	if len(ways) == 0 {
		return LossResult{}, errors.New("no way leads from the samples to pictures")
	}
	legs := len(ways[0].Legs)
	for _, w := range ways {
		if len(w.Legs) != legs || legs == 0 {
			return LossResult{}, fmt.Errorf("ways of %d and %d legs", legs, len(w.Legs))
		}
	}
	states, points := make([][]float64, len(ways)), make([][]Point, legs)
	for i, w := range ways {
		states[i] = w.State
	}
	var last Forward
	for k := range legs {
		for i, w := range ways {
			points[k] = append(points[k], Point{Key: w.Key, State: states[i], Time: w.Legs[k].Time})
		}
		if last, err = p.Eval(Current, points[k]); err != nil {
			return LossResult{}, err
		}
		next := make([][]float64, len(ways))
		for i, w := range ways {
			next[i] = w.Legs[k].next(states[i], last.Outputs[i])
		}
		states = next
	}
	b, grads, err := o.judge(ways, states)
	if err != nil {
		return b, err
	}
	for k := legs - 1; k >= 0; k-- {
		if grads, err = o.back(ways, k, points[k], grads, last); err != nil {
			return b, err
		}
	}
	return b, nil
}

// judge is the loss over final states, and its gradient there.
func (o RewardGradient) judge(ways []GradientPath, finals [][]float64) (LossResult, [][]float64, error) {
	var b LossResult
	n := float64(len(ways))
	keys := make([]Key, len(ways))
	for i, w := range ways {
		keys[i] = w.Key
	}
	grads, err := o.Develop(keys, finals, func(from int, pictures []vision.Pixels) ([][]float32, error) {
		some := ways[from : from+len(pictures)]
		values, grads, err := o.Reward(some, pictures)
		if err != nil {
			return nil, err
		}
		for i, v := range values {
			loss, slope := -v, -1/n
			if o.Margin != nil {
				if loss = *o.Margin - v; loss <= 0 {
					loss, slope = 0, 0
				}
			}
			b.Loss += loss / n
			if !some[i].Against {
				b.add("developed_reward", v)
			}
			for e := range grads[i] {
				grads[i][e] *= float32(slope)
			}
		}
		return grads, nil
	})
	return b, grads, err
}

// back takes gradients at the states after leg k to those before it. The first leg's states are
// given, and need none; the outputs of the last segment are at hand.
func (o RewardGradient) back(ways []GradientPath, k int, points []Point, grads [][]float64, last Forward) ([][]float64, error) {
	outputs := make([][]float64, len(ways))
	for i, w := range ways {
		outputs[i] = make([]float64, len(grads[i]))
		for e, g := range grads[i] {
			outputs[i][e] = w.Legs[k].Out * g
		}
	}
	if k == 0 && len(ways[0].Legs) == 1 {
		return nil, last.Back(outputs)
	}
	states, err := o.Pull(points, outputs)
	if err != nil {
		return nil, err
	}
	for i, w := range ways {
		for e, g := range grads[i] {
			states[i][e] += float64(w.Legs[k].X * g)
		}
	}
	return states, nil
}

// The paths of published methods from the rollout to a picture, for RewardGradient.
//
//	Direct     SRPO's Direct-Align (Shen et al., 2025): a finished sample x0 with known noise e,
//	           one step between the sigmas a and b, and the noise taken off again:
//	           x_a = a·e + (1-a)·x0,  x0' = (x_a + (b-a)·v - b·e)/(1-b)
//	           towards the picture (b < a), and, against, towards noise (b > a), where the
//	           reward's sign is turned. Upstream takes turns; here each sample goes both ways
//	Predicted  ReFL (Xu et al., 2023): the clean sample that the network's answer at one of the
//	           recorded steps predicts
//	Last       DRaFT-K (Clark et al., 2023): the recorded steps, which are the last ones, made
//	           once more; their draws stay. K = 1 is DRaFT-1
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
	Unit  float64 // the network's time input at sigma 1; 0: 1
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
				leg.Add = make([]float64, len(d.Action[k]))
				for e, c := range d.Action[k] {
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
