package preflight

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// checkRewards compares rewards with the prompts that they are asked about.
func (c *check) checkRewards() {
	for i, r := range c.Rewards {
		read := reads(r)
		if read == nil {
			continue
		}
		for _, key := range []string{"rollout.prompts", "evaluate.prompts"} {
			c.checkReads(fmt.Sprintf("reward[%d].name", i), key, r.Called(), read)
		}
	}
}

// reads is what a reward makes of a prompt; nil where it takes any.
func reads(r experiment.Reward) func(p prompts.Prompt) error {
	switch k, _ := experiment.RewardNamed(r.Name); {
	case strings.HasPrefix(r.Name, "edit"): // edit, edit_done, edit_kept
		return func(p prompts.Prompt) error { _, err := rewards.SceneEdit{}.Asked(p.Text, p.Meta.Map()); return err }
	case k.Scenes && r.URL == "":
		return func(p prompts.Prompt) error { _, err := scenes.Parse(p.Text); return err }
	case r.Name == "ocr":
		rule := experiment.Filled(r.OCR).OCRRule
		return func(p prompts.Prompt) error { _, err := rule.Target(p.Text); return err }
	case r.Name == "thing":
		return func(p prompts.Prompt) error { _, err := moving.Parse(p.Text); return err }
	case r.Name == "heading":
		return func(p prompts.Prompt) error { _, err := rewards.Heading{}.Asked(p.Text, p.Meta.Map()); return err }
	}
	return nil
}

// checkReads refuses a list of which a reward can read nothing, and notes one of which it cannot read all.
func (c *check) checkReads(at, list, reward string, read func(prompts.Prompt) error) {
	all, unread := c.Prompts[list], 0
	var first error
	for _, p := range all {
		if err := read(p); err != nil {
			if unread++; first == nil {
				first = err
			}
		}
	}
	switch path := map[string]string{"rollout.prompts": c.Named(), "evaluate.prompts": c.Evaluate.Prompts}[list]; {
	case unread == 0:
	case unread == len(all):
		c.Refuse(at, fmt.Sprintf("reward %q can read none of the prompts of %s: %v", reward, path, first), "prompts that it reads, or another reward")
	default:
		c.notes = append(c.notes, fmt.Sprintf("reward %s cannot read %d of the %d prompts of %s, and their samples will be missing: %v", reward, unread, len(all), path, first))
	}
}
