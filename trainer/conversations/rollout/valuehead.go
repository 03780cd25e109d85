package rollout

import (
	"errors"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: the network of values of PPO (Schulman et al., 2017), as a head on the policy's own states: w·h + b of the
// state before each token that the model chose. Published trainers keep a second model for it (verl, OpenRLHF); this
// head costs a row of weights, sees the policy's states, and does not move it: the loss of values stops at the
// states. It has an optimiser of its own, and its gradient is cut by itself. While ValueHeadOnly is set it learns
// alone (verl's critic_warmup).
//
// Invariants (tests): values of a roll are those of the first update, bit for bit; with Still no
// weight of the policy moves, and neither does its optimiser.

// valueHead is the head, and its optimizer.
type valueHead struct {
	head    *vlm.ValueHead
	learner *model.Learner
	rate    float64
	clip    float64
}

// AddValueHead gives the policy a head of values. Learn comes first.
func (p *Policy) AddValueHead(key rng.Key, o optim.Options) error {
	head, err := vlm.NewValueHead(p.VLM.Options.Pool, p.VLM.Model.Text.Width, key)
	if err != nil {
		return err
	}
	learner, err := model.NewLearner(o, nil, model.Place{}, model.Part{Params: head.Params.Trained()})
	if err != nil {
		head.Params.Free()
		return err
	}
	p.valueHead = &valueHead{head: head, learner: learner, rate: o.LR, clip: o.GradClip}
	return nil
}

// SetValueRate sets how fast the head learns from now on.
func (p *Policy) SetValueRate(rate, clip float64) { p.valueHead.rate, p.valueHead.clip = rate, clip }

// ValueLearner is the head's weights and their optimizer; nil where there is no head.
func (p *Policy) ValueLearner() *model.Learner {
	if p.valueHead == nil {
		return nil
	}
	return p.valueHead.learner
}

// Values are the head's expectations before each token that the model chose in some episodes.
func (p *Policy) Values(samples []trainer.Sample) ([][]float64, error) {
	p.forget()
	all := make([][]float64, len(samples))
	for i, s := range samples {
		h, err := p.forward(trainer.Point{Key: s.Key, Episode: s.Item.Episode, Value: true}, false)
		if err != nil {
			return nil, err
		}
		if out := h.outputs(); h.chosen > 0 {
			all[i] = out[len(out)-h.chosen:]
		}
		h.tape.Reset()
	}
	return all, nil
}

// jointParams are the policy's weights and the head's, which move together.
type jointParams struct {
	*model.Learner
	p *Policy
}

// Norm is of the policy's gradient; a value head's is returned where it is NaN.
func (b jointParams) Norm() (float64, error) {
	if n, err := b.p.valueHead.learner.Norm(); err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return n, err
	}
	return b.Learner.Norm()
}

// Move moves both; the head alone while the policy is still.
func (b jointParams) Move(scale, rate float64) {
	c := b.p.valueHead
	norm, _ := c.learner.Norm() // which cannot fail: the head lies on one device
	c.learner.Move(optim.ClipScale(norm, c.clip), c.rate)
	if !b.p.ValueHeadOnly {
		b.Learner.Move(scale, rate)
	}
}

// Skip forgets both gradients.
func (b jointParams) Skip() {
	b.p.valueHead.learner.Skip()
	b.Learner.Skip()
}

func (c *valueHead) free() {
	if c != nil {
		c.learner.Free()
		c.head.Params.Free()
	}
}

var errNoValueHead = errors.New("values were asked for, and there is no head of values")
