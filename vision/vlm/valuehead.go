package vlm

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Card: a head of values, for PPO: V = w h + b of the states behind the last norm, in F32, as
// verl's critic has it ("score"). It starts at 0, so that the first advantages are the returns
// themselves. It is no part of a model's folder: a trainer keeps it in its own state.

// ValueHead says what is still to come.
type ValueHead struct {
	Params *nn.Params
	score  *nn.Linear
}

// NewValueHead is a trained head for a model's states.
func (f *Folder) NewValueHead(key rng.Key) (*ValueHead, error) {
	p, err := nn.New(nn.Options{Pool: f.options.Pool, Math: kernels.MathF32, Key: key, Train: []string{".*"}})
	if err != nil {
		return nil, err
	}
	return &ValueHead{Params: p, score: p.Zeroed().Linear("score", f.Text.Width, 1, true)}, p.Check()
}

// Values are F32 [1, len(rows), 1], of rows of Hidden.
func (v *ValueHead) Values(tp *autograd.Tape, hidden *autograd.Value, rows []int32) *autograd.Value {
	return v.score.Apply(tp, tp.Gather(hidden, rows, 1, len(rows)), autograd.With{Wide: true})
}
