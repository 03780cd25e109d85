package prompts

import (
	"fmt"
	"math"
)

// More rolls further samples of prompts that mostly fail, in the same iteration (DARS; Yang et al., 2025): a group of N
// samples of success s moves the weights by N·S, S = 2s(1-s), or 2√(s(1-s)) where advantages are divided by a
// deviation, and is largest at s = 1/2, where it is N/2, or N. Below 1/2 as many samples are rolled as make up for it,
//
//	equal  ⌈(P - N·S)/S⌉              P the largest value: all groups move the same
//	hard   ⌈(2(1-s)P - N·S)/S⌉        and the harder the prompt, the more
//
// but no more than Most in all. A group that has no success at all counts as half a success. All samples of a prompt
// are compared as one group; upstream drops those without any success, as advantage.filter = { by = "unequal" } does.
//
// Invariants (tests): a group of success 1/2 or more gets nothing; a harder prompt never gets less.
type More struct {
	By      string   `toml:"by" enum:"equal,hard" doc:"how many: until all prompts move the weights alike, or the more the harder they are"`
	Most    int      `toml:"most,required" range:"[2,1e6]" doc:"samples of a prompt in all"`
	Success *float64 `toml:"success" doc:"a total from which a sample counts as a success; without, the total itself does, cut to 0 and 1"`
}

// Card describes the choice and names its source.
func (More) Card() string {
	return "Further samples of prompts that mostly fail, in the same iteration, until they move the weights as much as others (DARS)."
}

// Words are the choice in a plan.
func (m More) Words() string {
	return fmt.Sprintf("up to %d samples of prompts that mostly fail", m.Most)
}

// SetDefaults is the paper's first schedule.
func (m *More) SetDefaults() { *m = More{By: "equal"} }

// Further is how many samples a group of n gets whose success is s. divided says whether advantages are divided by a
// deviation.
func (m More) Further(s float64, n int, divided bool) int {
	size := float64(n)
	if s <= 1e-6 {
		s = 0.5 / size
	}
	if !(s < 0.5) { // NaN is not
		return 0
	}
	moves, peak := 2*s*(1-s), size/2
	if divided {
		moves, peak = 2*math.Sqrt(s*(1-s)), size
	}
	lacking := peak - float64(size*moves)
	if m.By == "hard" {
		lacking = float64(2*(1-s)*peak) - float64(size*moves)
	}
	return max(0, min(int(math.Ceil(lacking/moves)), m.Most-n))
}
