package judge

import (
	"regexp"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: marks on several axes (Pref-GRPO, unifiedreward.py): "Style Score (1-5): 3.5" for each of
// Alignment, Coherence, Style; the last of a repeated one counts. An axis that an answer leaves
// out takes upstream its mean over the answers of the batch that have it, 0 if none has; the reward here leaves
// it missing instead.

// Axes are those that are asked for.
var Axes = [...]string{"Alignment", "Style", "Coherence"}

var axis = regexp.MustCompile(`([\pL\p{N}_]+) Score \(1-5\):` + pytext.SpaceClass + `*([0-5]` + digits + `)`)

// Marks are an answer's marks by axis.
func Marks(reply string) map[string]float64 {
	all := map[string]float64{}
	for _, m := range axis.FindAllStringSubmatch(reply, -1) {
		if v, ok := pytext.Float(m[2]); ok {
			all[m[1]] = v
		}
	}
	return all
}
