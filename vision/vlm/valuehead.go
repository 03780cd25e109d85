package vlm

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Card: a head of values, for PPO: V = w h + b of the states behind the last norm, in F32, as verl's critic has it
// ("score"). It starts at 0, so that the first advantages are the returns themselves. It does not belong to a model's
// folder: a trainer keeps it in its own state.

// ValueHead predicts the return.
type ValueHead struct {
	Params *nn.Params
	score  *nn.Linear
}

// NewValueHead is a trained head for states of this width.
func NewValueHead(pool *tensor.Pool, width int, key rng.Key) (*ValueHead, error) {
	p, err := nn.New(nn.Options{Pool: pool, Math: kernels.MathF32, Key: key, Train: []string{".*"}})
	if err != nil {
		return nil, err
	}
	return &ValueHead{Params: p, score: p.Zeroed().Linear("score", width, 1, true)}, p.Check()
}

// Apart are the values of rows of Hidden as Values has them, without gradients of the states: the head learns, and
// the network does not.
func (v *ValueHead) Apart(tp *autograd.Tape, hidden *autograd.Value, rows []int32) *autograd.Value {
	states := tp.Gather(hidden, rows, 1, len(rows))
	return v.score.Apply(tp, tp.Input(states.Tensor()), autograd.With{Wide: true})
}

// Values are F32 [1, len(rows), 1], of rows of Hidden.
func (v *ValueHead) Values(tp *autograd.Tape, hidden *autograd.Value, rows []int32) *autograd.Value {
	return v.score.Apply(tp, tp.Gather(hidden, rows, 1, len(rows)), autograd.With{Wide: true})
}
