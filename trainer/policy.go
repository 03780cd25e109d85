package trainer

import "errors"

// Weights name one of a policy's sets of weights. They share frozen parameters: switching between them costs no
// second copy of a model.
type Weights int

const (
	Current   Weights = iota // the trained weights
	Reference                // the weights to stay close to: those of the beginning, or of the last reset
	Old                      // the objective's old weights: those of the last roll, or a slow average
	Average                  // the moving average of the current ones
	Teacher                  // those of another model, which answers and is never trained
	// Lagged rolls where samples come from earlier weights: as they were some iterations ago. The number behind it is
	// one iteration younger, and so on, up to those that the iteration began with. All of them are moved on together,
	// once an iteration, when Lagged is to follow.
	Lagged
)

// A Policy is a model that acts.
type Policy interface {
	// Roll makes one sample for each key.
	Roll(w Weights, keys []Key) ([]Sample, error)
	// Eval asks the network at some points. A point need not be a state that was
	// rolled: an objective may noise a sample anew.
	Eval(w Weights, at []Point) (Forward, error)
	// Params are the trained weights.
	Params() Params
}

// A Question asks the network at points, by a set of weights.
type Question struct {
	Of Weights
	At []Point
}

// ErrRetracted reports an update whose answers were withdrawn, before it was applied: it is computed again.
var ErrRetracted = errors.New("answers of the network were withdrawn")

// An Announcer is a policy that computes answers to several questions beside each other.
type Announcer interface {
	// Announce prepares answers to the questions of an update, which Eval is asked later with the same slices of points.
	// questions is not called where that saves nothing.
	Announce(questions func() ([]Question, error)) error
}

// announce lets a policy prepare questions, if it can.
func announce(p Policy, questions func() ([]Question, error)) error {
	if a, ok := p.(Announcer); ok {
		return a.Announce(questions)
	}
	return nil
}

// A Thrifty policy can go on where the memory of its device runs out: by smaller passes, or by computing again.
type Thrifty interface {
	// Attempt runs f, which computes with the policy, and runs it again with less memory where it runs out.
	Attempt(f func() error) error
}

// A Point is an input of the network.
type Point struct {
	Key   Key // whose prompt
	State []float64
	Time  float64

	// Episode, where it is not nil, asks for the log-probability of every token that the model chose in it, in their
	// order, and for Entropy, behind them, for the entropy of the distribution that each was chosen from, and for
	// Value, behind these, for a value head's expectation before each.
	Episode Episode
	Entropy bool
	Value   bool
}

// Forward is a forward pass: the network's outputs, one per point, and the way back.
type Forward struct {
	Outputs [][]float64
	// Back takes the objective's gradients at the outputs, and adds the weights' gradients to Params' gradient. Only
	// a pass of the current weights have it.
	Back func(grads [][]float64) error
}

// Params are the weights that an optimiser moves. They may lie on a device.
type Params interface {
	// Norm is the length of the gathered gradient; of several devices it gathers it first.
	Norm() (float64, error)
	// Move takes a step of the optimiser along the gradient times scale, and
	// forgets the gradient.
	Move(scale, rate float64)
	// Skip forgets the gradient: the weights stay as they are.
	Skip()
	// Follow moves other weights towards the current ones: w += (1-decay) (current - w).
	Follow(w Weights, decay float64)
}
