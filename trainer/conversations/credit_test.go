package conversations

import (
	"fmt"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// TestTokenCredit: rewards to come and whitening reach the tokens.
func TestTokenCredit(t *testing.T) {
	e, err := experiment.Parse("small.toml", []byte(`run = { name = "small", iterations = 1 }
model = { path = "nowhere" }
rollout = { prompts = "embed:cards" }
reward = [{ name = "accuracy" }]
advantage = { estimator = "reinforce++", credit = { gamma = 0.5, whiten = { on = false } } }
loss = { objective = "clip", clip_range = 0.2 }
episode = {}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{}
	if m.turn, err = e.Turn(0); err != nil {
		t.Fatal(err)
	}
	s := trainer.Sample{Item: trainer.Item{Episode: &Episode{Transcript: &tools.Transcript{Prompt: 2, Tokens: make([]int32, 5)}}}}
	s.Decisions.Step, s.Decisions.Trained = []int{2, 3, 4}, []bool{true, true, true}
	samples := []trainer.Sample{s}
	if err := m.creditTokens(samples, []float64{0}, []float64{8}); err != nil {
		t.Fatal(err)
	}
	if a := samples[0].Decisions.Advantage; fmt.Sprint(a) != "[2 4 8]" {
		t.Errorf("advantages %v", a)
	}
}
