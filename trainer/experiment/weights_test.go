package experiment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// TestWeightsHavePaths: the path of a reward's weights may be set.
func TestWeightsHavePaths(t *testing.T) {
	for _, k := range kinds.All() {
		if !k.Is(rewards.Weights) {
			continue
		}
		text := fmt.Sprintf("[run]\nname = \"x\"\niterations = 1\n[model]\npath = \"m\"\n[sampler]\nframes = 5\n[rollout]\nprompts = \"p.txt\"\n[[reward]]\nname = %q\npath = \"w\"\n", k.Name)
		if _, err := Parse("x.toml", []byte(text), nil); err != nil && strings.Contains(err.Error(), "reward[0].path") {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}

// TestTokensKL: a weight alone is enough for the distance from the reference in an episode, and of pictures as before.
func TestTokensKL(t *testing.T) {
	if e := parse(t, least, "episode={turns=2}", "reward=[{name='accuracy'}]", "loss.kl.weight=0.01"); e.Loss.KL.Estimator != "k3" {
		t.Errorf("tokens: %s", e.Loss.KL.Estimator)
	}
	if e := parse(t, least, "loss.kl.weight=0.01"); e.Loss.KL.Estimator != "mean" {
		t.Errorf("pictures: %s", e.Loss.KL.Estimator)
	}
	for _, k := range advantage.Rules() {
		if _, err := Parse("a.toml", []byte(least), []string{"episode={turns=2}", "reward=[{name='accuracy'}]", "advantage.estimator=" + k.Name}); err != nil {
			if _, err := Parse("a.toml", []byte(least), []string{"advantage.estimator=" + k.Name, "sampler.solver=dance", "sampler.tree={splits=[0]}", "rollout.group=2"}); err != nil {
				t.Errorf("estimator %s is listed, and refused everywhere: %v", k.Name, err)
			}
		}
	}
}
