package experiment

import (
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
)

// TestElsewhere: the counterpart of each setting of another program is a key of a file, or a flag.
func TestElsewhere(t *testing.T) {
	e := Default()
	all := config.Keys(&e)
	for _, s := range ElsewhereKeys() {
		if s.Here == "" && s.Differs == "" {
			t.Errorf("%s of %s has neither a key nor a reason", s.Name, s.Program)
		}
		if s.Here != "" && !strings.HasPrefix(s.Here, "--") && !slices.ContainsFunc(all, func(k config.Key) bool { return k.Path == s.Here }) {
			t.Errorf("%s of %s: there is no key %s", s.Name, s.Program, s.Here)
		}
	}
}

// TestOfOthers: an unknown key that another program has is answered with the key here; a misplaced or misspelt one as
// before.
func TestOfOthers(t *testing.T) {
	for line, want := range map[string]string{
		"[sample]\nnum_image_per_prompt = 24":     "a table of flow_grpo: 'darkroom list elsewhere'",
		"[rollout]\nnum_image_per_prompt = 24":    "num_image_per_prompt of flow_grpo is rollout.group here",
		"[train]\nlearning_rate = 1e-4":           "a table of Flow-Factory, flow_grpo: 'darkroom list elsewhere'",
		"[optim]\nlearning_rate = 1e-4":           "learning_rate of Flow-Factory, flow_grpo is optim.lr here",
		"[loss]\nepsilon = 0.2":                   "epsilon of TRL is loss.clip_range here",
		"[track]\nto = \"wandb\"":                 `there are as, names, out; or did you mean "monitor.rollback.to"?`,
		"[run]\nsteps = 20":                       `did you mean "sampler.steps"?`,
		"[rollout]\nprompts_per_iteratoin = 2":    `did you mean "prompts_per_iteration"?`,
		"[optim]\ngradient_accumulation_steps =2": "optim.updates (batches / this, and optim.split = true) here",
	} {
		if _, err := Parse("a.toml", []byte(line+"\n"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
