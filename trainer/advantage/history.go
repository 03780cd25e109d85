package advantage

import "math"

// History is DDPO's tracker (Black et al., 2023): each prompt's last rewards, the new ones
// among them, are what a reward is compared with; a prompt with fewer than Min of them is
// compared with the batch. a = (r - mean)/(deviation(ddof 0) + 1e-6).
//
// It is state that a checkpoint keeps.
type History struct {
	Size    int                  `json:"size"` // rewards a prompt
	Min     int                  `json:"min"`
	Rewards map[string][]float64 `json:"rewards"`
}

// Update remembers rewards and compares them.
func (h *History) Update(prompts []string, rewards []float64) []float64 {
	if h.Rewards == nil {
		h.Rewards = map[string][]float64{}
	}
	ids, names := make([]int, len(prompts)), map[string]int{}
	for i, p := range prompts {
		if _, ok := names[p]; !ok {
			names[p] = len(names)
		}
		ids[i] = names[p]
	}
	all := make([]int, len(rewards))
	for i := range all {
		all[i] = i
	}
	batch := pick(rewards, present(all, rewards))
	out := make([]float64, len(rewards))
	for i := range out {
		out[i] = math.NaN()
	}
	for _, g := range Groups(ids) {
		name := prompts[g[0]]
		g = present(g, rewards)
		seen := append(h.Rewards[name], pick(rewards, g)...)
		if len(seen) > h.Size {
			seen = append([]float64(nil), seen[len(seen)-h.Size:]...)
		}
		h.Rewards[name] = seen
		base := seen
		if len(seen) < h.Min {
			base = batch
		}
		for _, i := range g {
			out[i] = (rewards[i] - mean(base)) / (deviation(base, 0) + 1e-6)
		}
	}
	return out
}
