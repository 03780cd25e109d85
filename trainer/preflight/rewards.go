package preflight

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/judges"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// checkRewards compares rewards with the prompts that they are asked about.
func (c *check) checkRewards() {
	for i, r := range c.Rewards {
		read := judges.Reads(r)
		if read == nil || c.AllTaught() {
			continue
		}
		for _, key := range []string{"rollout.prompts", "evaluate.prompts"} {
			c.checkReads(fmt.Sprintf("reward[%d].name", i), key, r.Called(), read)
		}
	}
}

// openRewards opens every reward on a device that computes nothing, as a run will on its own: folders, their settings
// and the headers of their weights, programs and scripts are there. A key that the environment lacks is a note, since a
// file may be planned elsewhere than it is run.
func (c *check) openRewards() {
	bench := judges.Bench{Device: func() (*features.Device, error) { return features.On(c.Pool, features.F32), nil }}
	for i, r := range c.Rewards {
		if !c.Clean(fmt.Sprintf("reward[%d]", i)) {
			continue // as it stands it is no reward
		}
		o, err := judges.Open(r, bench)
		if err == nil {
			err = o.Close()
		}
		key := fmt.Sprintf("reward[%d].", i)
		switch {
		case errors.Is(err, judges.ErrNoKey):
			c.Notes = append(c.Notes, fmt.Sprintf("%v: 'train' needs it", err))
		case err != nil:
			c.Fail(key+"path|"+key+"command|"+key+"motion|"+key+"name", err)
		}
	}
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
		c.Notes = append(c.Notes, fmt.Sprintf("reward %s cannot read %d of the %d prompts of %s, and their samples will be missing: %v", reward, unread, len(all), path, first))
	}
}
