package answers

import (
	"context"
	"fmt"
	"math"
	"regexp"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: one box for one thing.
//
//	Grounding  VLM-R1's rec: the first four whole numbers in brackets of the FIRST answer, stretched
//	           from the processed picture, which the model saw, to the original; PixelOverlap with
//	           the truth's last answer
//	GIoU       GIoU + 1, from 0 to 2, of the four numbers in the last answer and those of the truth,
//	           both in one frame of coordinates (Visual-RFT, grpo_lisa.py)
//
// Invariants (tests): the truth is the most there is, 1 and 2; a reply without a box is 0.
type Grounding struct {
	Seen, Original [2]int // width and height of the picture that the model saw, and of the file
}

var fourNumbers = regexp.MustCompile(`\[(` + number + `)` + comma + `(` + number + `)` + comma + `(` + number + `)` + comma + `(` + number + `)]`)

// Rule judges a reply.
func (g Grounding) Rule(reply, truth string) (rewards.Score, error) {
	text, ok := lastIn(answerTag, truth)
	v, err := pytext.JSON(pytext.Strip(text))
	want, isBox := corners(v)
	if !ok || err != nil || !isBox {
		return rewards.Score{}, fmt.Errorf("the truth %.80q is not <answer>[x0, y0, x1, y1]</answer>", truth)
	}
	return g.against(reply, want)
}

// against judges a reply by a box.
func (g Grounding) against(reply string, want boxes.Box) (rewards.Score, error) {
	if min(g.Seen[0], g.Seen[1], g.Original[0], g.Original[1]) < 1 {
		return rewards.Score{}, fmt.Errorf("pictures of %v and %v: their sizes are needed to compare boxes", g.Seen, g.Original)
	}
	said, ok := firstIn(answerTag, reply)
	m := fourNumbers.FindStringSubmatch(pytext.Strip(said))
	if !ok || m == nil {
		return judged(0, "reply", reply), nil
	}
	var b boxes.Box
	for i := range b {
		x, _ := pytext.Float(m[i+1])
		b[i] = x / float64(g.Seen[i%2]) * float64(g.Original[i%2])
	}
	s := rewards.Score{Value: PixelOverlap(b, want), Evidence: []evidence.Reason{{What: "asked for", Box: &want}}}
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) { // numbers beyond all measure
		return judged(0, "reply", reply), nil
	}
	s.Evidence = append(s.Evidence, evidence.Reason{What: "found", Box: &b, Value: s.Value})
	return s, nil
}

// GroundingReward asks the prompt for both sizes: meta.seen and meta.original, [width, height].
func GroundingReward() rewards.Reward {
	return rewards.Func(func(ctx context.Context, item rewards.Item) (rewards.Score, error) {
		var g Grounding
		if err := item.Meta.Read("seen", &g.Seen); err != nil {
			return rewards.Score{}, err
		}
		if err := item.Meta.Read("original", &g.Original); err != nil {
			return rewards.Score{}, err
		}
		return Rule(g.Rule).Reward().Score(ctx, item)
	})
}

// GIoU judges a reply by how far its box lies from the truth, also where they do not meet.
func GIoU(reply, truth string) (rewards.Score, error) {
	want, ok := boxSaid(truth)
	if !ok {
		return rewards.Score{}, fmt.Errorf("the truth %.80q is not [x0, y0, x1, y1]", truth)
	}
	text, _ := lastIn(answerTag, reply)
	found, ok := boxSaid(text)
	if !ok {
		return judged(0, "reply", reply), nil
	}
	s := rewards.Score{Value: GIoUReward(want, found), Evidence: []evidence.Reason{{What: "asked for", Box: &want}}}
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || found[0] > found[2] || found[1] > found[3] {
		return judged(0, "reply", reply), nil
	}
	s.Evidence = append(s.Evidence, evidence.Reason{What: "found", Box: &found, Value: s.Value})
	return s, nil
}

// boxSaid is the first box of a text.
func boxSaid(text string) (b boxes.Box, ok bool) {
	m := fourNumbers.FindStringSubmatch(text)
	if m == nil {
		return b, false
	}
	for i := range b {
		b[i], _ = pytext.Float(m[i+1])
	}
	return b, true
}

// GIoUReward is Visual-RFT's number: where nothing is covered its IoU is 0.
func GIoUReward(truth, found boxes.Box) float64 { return boxes.GIoU(truth, found) + 1 }
