package experiment

import (
	"fmt"
	"strings"
	"testing"
)

// TestWeightsHavePaths: a reward that reads weights may be told where they lie.
func TestWeightsHavePaths(t *testing.T) {
	for _, k := range Rewards() {
		if !k.Weights {
			continue
		}
		text := fmt.Sprintf("[run]\nname = \"x\"\niterations = 1\n[model]\npath = \"m\"\n[sampler]\nframes = 5\n[rollout]\nprompts = \"p.txt\"\n[[reward]]\nname = %q\npath = \"w\"\n", k.Name.Name)
		if _, err := Parse("x.toml", []byte(text), nil); err != nil && strings.Contains(err.Error(), "reward[0].path") {
			t.Errorf("%s: %v", k.Name.Name, err)
		}
	}
}
