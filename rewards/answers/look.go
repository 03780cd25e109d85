package answers

import (
	"context"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
)

// Card: was the closer look a useful one? A crop is useful where it shows the object of the question: at least Share
// of the prompt's meta.target (x0, y0, x1, y1 in pixels of its first picture, at full size). A crop that is larger
// than Most of the picture does not count as a closer look.
//
//	look   1 where any crop is useful, else 0
//	bonus  right answers count only with a picture that a tool gave back: the conditional part
//	       of DeepEyes's reward, so that a tool is neither called for nothing nor left alone
//	calls  max(0, 1 - |calls - target| / max(target, 1)), target meta.calls, 1 without it
//
// Invariants (tests): a crop of the target is useful and one of the whole picture is not; a wrong
// answer has no bonus.
type Look struct {
	Share float64 // of the target
	Most  float64 // of the picture's sides
}

// DefaultLook asks for four fifths of the target, in at most half of the picture's sides.
func DefaultLook() Look { return Look{Share: 0.8, Most: 0.5} }

// Useful reports whether a crop shows a target.
func (l Look) Useful(crop, target boxes.Box, width, height int) bool {
	both, _ := boxes.Overlap(crop, target)
	area := (target[2] - target[0]) * (target[3] - target[1])
	return area > 0 && both >= l.Share*area && crop[2]-crop[0] <= l.Most*float64(width) && crop[3]-crop[1] <= l.Most*float64(height)
}

// Score judges the crops of a conversation.
func (l Look) Score(_ context.Context, item rewards.Item) (rewards.Score, error) {
	if item.Transcript == nil {
		return rewards.Score{}, errNoReply
	}
	var target boxes.Box
	if err := item.Meta.Read("target", &target); err != nil {
		return rewards.Score{}, err
	}
	var s rewards.Score
	s.Evidence = append(s.Evidence, evidence.Reason{What: "asked for", Box: &target})
	for _, c := range item.Transcript.Crops {
		if c.Picture != 0 {
			continue
		}
		s.Evidence = append(s.Evidence, evidence.Reason{What: "crop", Box: &c.Box})
		if l.Useful(c.Box, target, item.Transcript.Width, item.Transcript.Height) {
			s.Value = 1
		}
	}
	return s, nil
}

// ToolBonus is 1 for a right answer after a picture that a tool gave back.
func ToolBonus(right rewards.Reward) rewards.Reward {
	return rewards.Func(func(ctx context.Context, item rewards.Item) (rewards.Score, error) {
		s, err := right.Score(ctx, item)
		if err != nil {
			return s, err
		}
		if s.Value <= 0.5 || item.Transcript.Pictures == 0 {
			s.Value = 0
			return s, nil
		}
		s.Value = 1
		return s, nil
	})
}

// CallCount is the nearer to 1, the nearer the number of calls is to meta.calls.
func CallCount() rewards.Reward {
	return rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		if item.Transcript == nil {
			return rewards.Score{}, errNoReply
		}
		target, calls := 1.0, 0.0
		if _, ok := item.Meta["calls"]; ok {
			if err := item.Meta.Read("calls", &target); err != nil {
				return rewards.Score{}, err
			}
		}
		for _, t := range item.Transcript.Turns {
			calls += one(t.Tool != "")
		}
		off := calls - target
		if off < 0 {
			off = -off
		}
		s := rewards.Score{Value: max(0, 1-off/max(target, 1))}
		s.Because("calls", "%v of %v", calls, target)
		return s, nil
	})
}

// LookKind is reward look.
var LookKind = replies(rewards.Kind{
	Name:   "look",
	Card:   "1 where a crop shows what the prompt's meta.target says: at least four fifths of it, in at most half of the picture's sides.",
	Paper:  "Darkroom's embedded pictures",
	Bounds: rewards.Unit,
}, DefaultLook())

// ToolBonusKind is reward tool-bonus.
var ToolBonusKind = replies(rewards.Kind{
	Name:   "tool-bonus",
	Card:   "1 for a right answer after a picture that a tool gave back (the conditional part of DeepEyes's reward).",
	Paper:  "DeepEyes (Zheng et al., 2025)",
	Cases:  []string{"vlm.reward_deepeyes"},
	Bounds: rewards.Unit,
}, ToolBonus(Rule(Default).Reward()))

// CallsKind is reward calls.
var CallsKind = replies(rewards.Kind{
	Name:   "calls",
	Card:   "How near the number of calls is to the prompt's meta.calls, 1 where it has none.",
	Paper:  "Darkroom's embedded pictures",
	Bounds: rewards.Unit,
}, CallCount())
