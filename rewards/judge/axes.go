package judge

import (
	"regexp"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: marks on several axes (Pref-GRPO, unifiedreward.py): "Style Score (1-5): 3.5" for each of
// Alignment, Coherence, Style; the last of a repeated one counts. An axis that an answer leaves
// out takes its mean over the answers of the batch that have it, 0 if none has: so do upstreams.
// The reward here leaves it missing instead.
// Invariant (test): answers with all axes do not change.

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

// FilledMarks are the marks of a batch on one axis, with the mean where one is missing.
func FilledMarks(replies []string, axis string) []float64 {
	out, found := make([]float64, len(replies)), make([]bool, len(replies))
	sum, n := 0.0, 0
	for i, r := range replies {
		if out[i], found[i] = Marks(r)[axis]; found[i] {
			sum, n = sum+out[i], n+1
		}
	}
	for i := range out {
		if !found[i] {
			out[i] = sum / float64(max(1, n))
		}
	}
	return out
}
