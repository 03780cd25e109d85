package experiment

import (
	"strings"
	"testing"
)

// TestLag: a method that needs samples of the current weights, or the end of the iteration before, refuses a lag,
// with the key; without a lag each of them is right.
func TestLag(t *testing.T) {
	parse(t, least, "run.lag=2")
	for key, sets := range map[string][]string{
		"loss.objective":        {"loss.objective=nft", "loss.kl={ weight = 1e-3, estimator = 'velocity' }"},
		"sampler.tree":          {"preset=branchgrpo"},
		"rollout.resample":      {"rollout.resample={ rolls = 3 }"},
		"rollout.curriculum":    {"rollout.curriculum={}"},
		"rollout.buffer":        {"rollout.buffer={}"},
		"advantage.estimator":   {"episode.protocol=darkroom", "advantage.estimator=remax"},
		"loss.kl.reference":     {"episode.protocol=darkroom", "loss.kl={ weight = 0.1, estimator = 'k3', reference = 'old' }"},
		`objective "gpg" takes`: {"episode.protocol=darkroom", "loss.objective=gpg"},
	} {
		parse(t, least, sets...)
		text := least
		if strings.Contains(strings.Join(sets, " "), "episode") {
			text = strings.Replace(text, `name = "jpeg"`, `name = "format"`, 1)
		}
		_, err := Parse("a.toml", []byte(text), append(sets, "run.lag=1"))
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "lag") {
			t.Errorf("%v with a lag: %v", sets, err)
		}
	}
}
