package conversations

import (
	"fmt"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
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
	if m.settings, err = e.Iteration(0); err != nil {
		t.Fatal(err)
	}
	s := trainer.Sample{Item: trainer.Item{Episode: &rollout.Episode{Transcript: &tools.Transcript{Prompt: 2, Tokens: make([]int32, 5)}}}}
	s.Decisions.Step, s.Decisions.Trained = []int{2, 3, 4}, []bool{true, true, true}
	samples := []trainer.Sample{s}
	if err := m.creditTokens(samples, []float64{0}, []float64{8}); err != nil {
		t.Fatal(err)
	}
	if a := samples[0].Decisions.Advantage; fmt.Sprint(a) != "[2 4 8]" {
		t.Errorf("advantages %v", a)
	}
}

// TestTurnCredit: the turns of two episodes after the same observation are compared there, beside the episodes.
func TestTurnCredit(t *testing.T) {
	e, err := experiment.Parse("small.toml", []byte(`run = { name = "small", iterations = 1 }
model = { path = "nowhere" }
rollout = { prompts = "embed:cards" }
reward = [{ name = "accuracy" }]
advantage = { estimator = "dr", turns = { gamma = 0.5 } }
loss = { objective = "clip", clip_range = 0.2 }
episode = {}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{}
	if m.settings, err = e.Iteration(0); err != nil {
		t.Fatal(err)
	}
	// The prompt is a token; a turn one token, an observation one: the first observation is 5 in both of these.
	two := func(sample int, tokens []int32, seen string) trainer.Sample {
		c := &tools.Transcript{Prompt: 1, Tokens: tokens, Shots: []tools.Shot{{Turn: 0, Hash: seen}}}
		s := trainer.Sample{Key: trainer.Key{Sample: sample}}
		for at := 1; at < len(tokens); at += 2 {
			c.Turns = append(c.Turns, tools.Turn{From: at, To: at + 1, Observed: min(at+2, len(tokens))})
			s.Decisions.Step, s.Decisions.Trained = append(s.Decisions.Step, at), append(s.Decisions.Trained, true)
		}
		s.Item.Episode = &rollout.Episode{Transcript: c}
		return s
	}
	samples := []trainer.Sample{two(0, []int32{1, 2, 5, 3}, "a"), two(1, []int32{1, 4, 5, 6, 7, 8}, "a"), two(2, []int32{1, 4, 5, 6}, "b")}
	if err := m.creditTokens(samples, []float64{0.5, -0.25, -0.25}, []float64{1, 0.5, 0.5}); err != nil {
		t.Fatal(err)
	}
	// To come, at the first turn: 0.5, 0.125, 0.25; in state 5 with picture a: 1 and 0.25. The others are alone.
	mean := (0.5 + 0.125 + 0.25) / 3
	want := [][]float64{{0.5 + 0.5 - mean, 0.5 + 0.375}, {-0.25 + 0.125 - mean, -0.25 - 0.375, -0.25}, {-0.25 + 0.25 - mean, -0.25}}
	for i, s := range samples {
		if len(s.Decisions.Advantage) != len(want[i]) {
			t.Fatalf("episode %d has %d advantages for %d turns", i, len(s.Decisions.Advantage), len(want[i]))
		}
		for k, a := range s.Decisions.Advantage {
			if math.Abs(a-want[i][k]) > 1e-15 {
				t.Errorf("turn %d of episode %d has %v, not %v", k, i, a, want[i][k])
			}
		}
	}
}
