package pictures

import (
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// The objective that follows the reward's own gradient: which ways lead from samples to pictures.

// rewardGradient is the objective; loss.gradient.through names its ways.
func (m *Model) rewardGradient(turn experiment.Turn, policy trainer.Policy) trainer.Objective {
	o := trainer.RewardGradient{Ways: m.ways(turn)[turn.Loss.Gradient.Through], Margin: turn.Loss.Gradient.Margin}
	o.Developer, _ = policy.(trainer.Developer) // none where an experiment is checked and nothing is open
	if m.rewards != nil {
		o.Reward = m.rewards.Slopes
	}
	return o
}

// ways are all there are, by name.
func (m *Model) ways(turn experiment.Turn) map[string]func([]trainer.Sample) ([]trainer.GradientPath, error) {
	rows, of, _ := m.judgedBy(turn)
	return map[string]func([]trainer.Sample) ([]trainer.GradientPath, error){
		"direct": m.directAlign(turn),
		"refl": trainer.Predicted{Rows: rows, RowsOf: of, Choose: func(k trainer.Key, n int) int {
			return m.Draws.Of("step that predicts", k).Draw().Intn(n)
		}}.Ways,
		"draft": trainer.Last{Rows: rows, RowsOf: of}.Ways,
	}
}

// directAlign is SRPO's. It draws the noisier sigma of a step, at random within an even slice of the range.
// The noise is the one that the sample began at, as upstream has it: the noised sample then lies near the
// way that led to it.
func (m *Model) directAlign(turn experiment.Turn) func([]trainer.Sample) ([]trainer.GradientPath, error) {
	g, times := turn.Loss.Gradient, max(1, turn.Loss.Times)
	draw := func(k trainer.Key, n int) (float64, []float64) {
		at := (float64(n) + m.Draws.Of("sigmas", k).Step(n).Draw().Float64()) / float64(times)
		least := g.Low + g.Step
		start, _ := m.Draws.Keys(k)
		return least + float64(at*(g.High-least)), pipeline.Noise(start, m.form(k).At)
	}
	return trainer.Direct{Draw: draw, Times: turn.Loss.Times, Step: g.Step, Both: g.Both, Unit: unit}.Ways
}
