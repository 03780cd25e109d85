package answers

import (
	"errors"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// HunyuanOCR's scorers (Tencent-Hunyuan/HunyuanOCR@40b26e26, train_verl/reward/task_scorers; spotting at 1ef4179e):
// each is a rule in a file of its own. Their -1 leaves a sample out of training: here the reply has no score, and an
// empty reply has none.

var errEmptyReply = errors.New("the reply is empty, and HunyuanOCR's scorers leave such replies out")

// hunyuan is a rule for replies that say something.
func hunyuan(r Rule) Rule {
	return func(reply, truth string) (rewards.Score, error) {
		if reply == "" {
			return rewards.Score{}, errEmptyReply
		}
		return r(reply, truth)
	}
}

var tagged = regexp.MustCompile(`<[^>]+>`)

// normalised is text as spotting and layout compare it: without tags and white space, two small digits as digits.
func normalised(text string) string {
	text = strings.Join(pytext.Fields(tagged.ReplaceAllString(text, "")), "")
	return strings.NewReplacer("₂", "2", "₁", "1").Replace(text)
}

// apart is how far two texts are from each other, from 0 to 1; two empty ones are not.
func apart(a, b string) float64 {
	return float64(edits.Distance(a, b)) / max(float64(max(runes(a), runes(b))), 1e-6)
}

func runes(text string) int { return len([]rune(text)) }

// snapped is a reward from 0 to 1; within 1e-4 of an end it is that end.
func snapped(v float64) float64 {
	v = max(min(v, 1), 0)
	if v <= 1e-4 {
		return 0
	}
	if 1-v <= 1e-4 {
		return 1
	}
	return v
}

// lessApart is 1 less the mean of distances, as upstream divides.
func lessApart(sum float64, count int) float64 { return snapped(1 - sum/(float64(count)+1e-6)) }
