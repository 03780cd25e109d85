package rollout_test

import (
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

const checked = `
[run]
name = "checked"
iterations = 1
[model]
path = "nowhere"
train = ['model\..*']
[episode]
[rollout]
prompts = "embed:zoom"
[[reward]]
name = "accuracy"
[loss]
clip_range = 0.3
`

// TestCheck: the decoder's roll is the trainer's computation, to the bit; an engine's distance is measured; old
// log-probabilities that are not the trainer's stop the run; and samples that are not trained on are not checked.
func TestCheck(t *testing.T) {
	e, err := experiment.Parse("checked.toml", []byte(checked), nil)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := e.Iteration(0)
	if err != nil {
		t.Fatal(err)
	}
	m := &conversations.Model{Policy: policy(t, true)}
	if err := m.Begin(settings, rng.New(1), 1); err != nil {
		t.Fatal(err)
	}
	samples, err := m.Policy.Roll(trainer.Current, few())
	if err != nil {
		t.Fatal(err)
	}
	tokens := 0
	for _, s := range samples {
		tokens += len(s.Decisions.Step)
	}
	c, err := m.Check(nil, samples)
	if err != nil || c.Ratio != 1 || c.Transitions != tokens || c.Floor == nil || *c.Floor != 0 || c.ClipRange != 0.3 {
		t.Fatalf("our own decoder: %+v, %v", c, err)
	}
	for _, s := range samples {
		for i := range rollout.EpisodeOf(s).LogProb {
			rollout.EpisodeOf(s).LogProb[i] = rollout.EpisodeOf(s).ModelLogProb[i] + 0.25
		}
	}
	m.Engine = &rollout.Engine{}
	if c, err = m.Check(nil, samples); err != nil || c.Ratio != 1 || math.Abs(*c.Floor-0.25) > 1e-12 {
		t.Errorf("an engine that lies 0.25 away: %+v, %v", c, err)
	}
	m.Engine = nil
	samples[1].Decisions.LogProb[0] -= 1e-6
	if c, err = m.Check(nil, samples); err == nil || !strings.Contains(err.Error(), "rollout and training disagree") {
		t.Errorf("another log-probability: %+v, %v", c, err)
	}
	for _, s := range samples {
		rollout.EpisodeOf(s).Noise = &rollout.Noise{}
	}
	if c, err = m.Check(nil, samples); err != nil || c != nil {
		t.Errorf("distorted pictures: %+v, %v", c, err)
	}
}
