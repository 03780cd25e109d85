package trainer

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/vision"
)

// RewardGradient follows the gradient of the reward itself: the network's answers lead to a final
// state, the state is developed to a picture, and what the reward says of the picture's numbers
// goes back through the development and the answers.
//
//	way       x_0 given; x_{k+1} = X_k·x_k + Out_k·v(x_k, t_k) + Add_k; the last is developed
//	loss      mean over ways of -reward, or max(margin - reward, 0)
//
// Where ways begin and how long they are is what published methods differ in: SRPO's Direct-Align
// goes from a finished sample with known noise over one step, ReFL from one of the last steps to
// the clean sample predicted there, DRaFT-K over the last K steps (package loss has their ways).
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
	Time   float64 // what the network is told
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

// Blame implements Objective.
func (o RewardGradient) Blame(p Policy, samples []Sample, _ []float64) (Blame, error) {
	ways, err := o.Ways(samples)
	if err != nil {
		return Blame{}, err
	}
	if len(ways) == 0 {
		return Blame{}, errors.New("no way leads from the samples to pictures")
	}
	legs := len(ways[0].Legs)
	for _, w := range ways {
		if len(w.Legs) != legs || legs == 0 {
			return Blame{}, fmt.Errorf("ways of %d and %d legs", legs, len(w.Legs))
		}
	}
	states, points := make([][]float64, len(ways)), make([][]Point, legs)
	for i, w := range ways {
		states[i] = w.State
	}
	var last Answers
	for k := range legs {
		for i, w := range ways {
			points[k] = append(points[k], Point{Key: w.Key, State: states[i], Time: w.Legs[k].Time})
		}
		if last, err = p.Eval(Current, points[k]); err != nil {
			return Blame{}, err
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
func (o RewardGradient) judge(ways []GradientPath, finals [][]float64) (Blame, [][]float64, error) {
	var b Blame
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
// given, and need none; the answers of the last leg are at hand.
func (o RewardGradient) back(ways []GradientPath, k int, points []Point, grads [][]float64, last Answers) ([][]float64, error) {
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
