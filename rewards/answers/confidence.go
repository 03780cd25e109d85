package answers

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: boxes with confidences, as Visual-RFT (Liuziyu77/Visual-RFT, grpo.py) judges them:
// <answer>[{'Position': [x0, y0, x1, y1], 'Confidence': 0.9}]</answer>. Repeated positions are
// dropped; boxes, the surest first, take the free truth that they overlap most, and hit it
// where the IoU is above 0.5.
//
//	iou         Σ IoU of hits / the larger of found and asked for, at most 1
//	confidence  mean of c for hits and 1 - c for the others, between 0 and 1
//
// A reply that cannot be read, or has no box, is 0. Single quotes count as double ones; a list
// that is cut short is closed after its last whole entry. A position that is not four numbers
// makes the whole reply 0 where it is compared: not after every truth was hit.
// Invariants (tests): the truth with confidence 1 is 1 and 1; the order of boxes of different
// confidence does not matter.
type Positions struct {
	Found   int
	Matches []Match
	IoU     float64
	Mean    float64 // Σ IoU / found, their first version
	Sure    float64 // the confidence reward
}

// A Match holds the IoU of one found box and the model's confidence in it.
type Match struct{ IoU, Confidence float64 }

// JudgePositions compares the lists in two answers.
func JudgePositions(reply, truth string) (Positions, error) {
	asked, err := positions(truth)
	if err == nil && slices.ContainsFunc(asked, func(p position) bool { return p.broken }) {
		err = errPositions
	}
	if err != nil {
		return Positions{}, fmt.Errorf("the truth %.80q: %w", truth, err)
	}
	found, err := positions(reply)
	if err != nil || len(found) == 0 {
		return Positions{}, nil
	}
	found = withoutRepeats(found)
	p := Positions{Found: len(found)}
	slices.SortStableFunc(found, func(a, b position) int {
		switch {
		case a.sure > b.sure:
			return -1
		case a.sure < b.sure:
			return 1
		}
		return 0
	})
	taken := make([]bool, len(asked))
	for _, f := range found {
		best, at := 0.0, -1
		for i, a := range asked {
			switch v := disjointIoU(a.box, f.box); {
			case taken[i]:
			case f.broken:
				return Positions{}, nil
			case v > best:
				best, at = v, i
			}
		}
		if best > 0.5 {
			taken[at] = true
		} else {
			best = 0
		}
		p.Matches = append(p.Matches, Match{best, f.sure})
		p.IoU += best
		if best > 0 {
			p.Sure += f.sure
		} else {
			p.Sure += 1 - f.sure
		}
	}
	n := float64(p.Found)
	p.Mean, p.Sure, p.IoU = p.IoU/n, p.Sure/n, p.IoU/max(n, float64(len(asked)))
	return p, nil
}

// disjointIoU is 0 for boxes that do not overlap, whichever way round they are.
func disjointIoU(a, b boxes.Box) float64 {
	if min(a[2], b[2]) <= max(a[0], b[0]) || min(a[3], b[3]) <= max(a[1], b[1]) {
		return 0
	}
	return boxes.IoU(a, b)
}

type position struct {
	box    boxes.Box
	sure   float64
	broken bool   // the box is not four numbers
	key    string // the box as it was written
}

var errPositions = errors.New("not a list of {'Position': [x0, y0, x1, y1], 'Confidence': c} in <answer> tags")

// positions reads the list between the first opening and the first closing tag.
func positions(text string) ([]position, error) {
	from := strings.Index(text, "<answer>")
	if from < 0 {
		return nil, errPositions
	}
	from += len("<answer>")
	to := strings.Index(text, "</answer>")
	if to < 0 {
		to = len(text)
	}
	body := text[from:max(from, to)]
	if !strings.HasSuffix(body, "]") {
		if i := strings.LastIndex(body, "},"); i >= 0 {
			body = body[:i]
		}
		body += "}]"
	}
	v, err := pytext.JSON(strings.ReplaceAll(body, "'", `"`))
	list, ok := v.([]any)
	if err != nil || !ok {
		return nil, errPositions
	}
	var all []position
	for _, entry := range list {
		o, _ := entry.(pytext.Object)
		numbers, isList := o["Position"].([]any)
		sure, rated := numeric(o["Confidence"])
		if !isList || !rated || math.IsNaN(sure) || math.Abs(sure) > 1e9 {
			return nil, errPositions
		}
		p := position{sure: sure}
		for _, x := range numbers {
			key, ok := hashed(x)
			if !ok {
				return nil, errPositions
			}
			p.key += key + " "
		}
		b, placed := corners(numbers)
		p.box, p.broken = b, !placed || len(numbers) != 4
		all = append(all, p)
	}
	return all, nil
}

func withoutRepeats(all []position) []position {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(p position) bool {
		repeated := seen[p.key]
		seen[p.key] = true
		return repeated
	})
}

// oneLineAnswer is a reply's answer as their reward reads it: of one line, or all of the reply,
// with double brackets made single.
func oneLineAnswer(reply string) string {
	a, ok := firstIn(answerLine, reply)
	return "<answer>" + strings.NewReplacer("[[", "[", "]]", "]", "\n", "").Replace(orWhole(a, ok, reply)) + "</answer>"
}

// DetectionIoU is the iou reward.
func DetectionIoU(reply, truth string) (rewards.Score, error) {
	p, err := JudgePositions(oneLineAnswer(reply), pytext.Strip(truth))
	s := judged(min(1, p.IoU), "reply", reply)
	s.Parts = map[string]float64{"found": float64(p.Found)}
	return s, err
}

// DetectionConfidence is the confidence reward.
func DetectionConfidence(reply, truth string) (rewards.Score, error) {
	p, err := JudgePositions(oneLineAnswer(reply), pytext.Strip(truth))
	return judged(min(1, max(0, p.Sure)), "reply", reply), err
}
