package conversations

import (
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Objective is model.Model's: every objective of an episode is one of tokens.
func (m *Model) Objective(turn experiment.Turn, _ trainer.Policy) (trainer.Objective, error) {
	if turn.Kind().Learns == loss.JudgedAnswers {
		return m.preferring(turn), nil
	}
	if turn.Kind().Written() {
		return trainer.Teaching{Aggregate: turn.Loss.Aggregate}, nil
	}
	kl := turn.Loss.KL
	o := trainer.TokenPolicy{Loss: turn.Loss.Tokens(), Reference: kl.Weight > 0 && kl.Reference != "old", Anchor: model.Anchor(turn)}
	if turn.Comparison().ValueHead {
		o.Critic = &trainer.Critic{Clip: turn.Loss.Value.ClipRange, Aggregate: loss.Aggregate{Mode: "token-mean"}}
	}
	if turn.Kind().Has(loss.TokenDraws) {
		o.Draw = func(k trainer.Key, token int) float64 {
			return m.Draws.Of("clip-cov", k).Step(token).Draw().Float64()
		}
	}
	return m.imitating(turn, o), nil
}
