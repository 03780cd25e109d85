package rollout_test

import (
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// TestSpecialTokensInReplies: a model whose words hold special tokens, which a protocol tells back to
// it, plays its episode to the end; the tokens came back as plain text.
func TestSpecialTokensInReplies(t *testing.T) {
	for _, name := range []string{"deepeyes", "verl", "pixel_reasoner"} {
		p := policy(t, false, ".*")
		protocol, err := tools.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		protocol.Read = func(string) tools.Reading {
			return tools.Reading{Calls: []tools.Call{{Name: "<|video_pad|>"}}}
		}
		p.Protocol, p.Limits = protocol, tools.Limits{Turns: 2}
		samples := rolled(t, p, []trainer.Key{{}, {Sample: 1}, {Sample: 2}, {Sample: 3}})
		defused := 0
		for _, s := range samples {
			defused += rollout.EpisodeOf(s).Defused
		}
		if defused == 0 {
			t.Errorf("%s: no episode had a special token to tell back", name)
		}
	}
}
