package experiment

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestSeedsOfEpisodes: what an option of episodes draws is listed where the option is on, and nowhere else.
func TestSeedsOfEpisodes(t *testing.T) {
	drawn := func(purpose rng.Purpose, sets ...string) bool {
		all := parse(t, least+"[episode]\n", sets...).seeds()
		return slices.ContainsFunc(all, func(s Seed) bool { return s.Purpose == purpose })
	}
	for set, purpose := range map[string]rng.Purpose{
		"episode.shuffled={share=0.5}": shuffling,
		"loss.perception={weight=0.1}": masking,
	} {
		if !drawn(purpose, set) || drawn(purpose) {
			t.Errorf("%s draws %q: listed %v, without it %v", set, purpose, drawn(purpose, set), drawn(purpose))
		}
	}
}
