package judge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
)

// Card: DeepEyes with its judge: the reply's form by package answers, whether it is right by a
// model that is asked in words, without pictures.
//
//	visual     prompts/deepeyes_visual, read by JudgedOne
//	reasoning  prompts/deepeyes_reasoning, read by JudgedTrue
//	math       prompts/deepeyes_math, read by JudgedTrue; Proved may know better
//
// A judgement that cannot be read is asked for again, up to Tries; then there is no score
// (upstream: wrong). The prompt's meta.answer is the truth; meta.question is the question, or
// else the prompt is. Pictures that tools gave back are counted in the transcript.
// Invariants (tests): an answer that does not count is not asked about.
type DeepEyes struct {
	Model  Completer
	Kind   string                         // "visual", "reasoning", "math"
	Proved func(reply, truth string) bool // symbolic mathematics, where there is some; nil: none
	Tries  int                            // 8
}

// deepEyesKinds are the differences between kinds.
var deepEyesKinds = map[string]struct {
	read      func(reply string) answers.DeepEyes
	question  string
	judgement func(reply string) answers.Judgement
}{
	"visual":    {answers.DeepEyesVisual, "deepeyes_visual", answers.JudgedOne},
	"reasoning": {answers.DeepEyesReasoning, "deepeyes_reasoning", answers.JudgedTrue},
	"math":      {answers.DeepEyesMaths, "deepeyes_math", answers.JudgedTrue},
}

var errNoReply = errors.New("there is no reply to judge")

// Score judges a transcript.
func (d DeepEyes) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	kind, ok := deepEyesKinds[d.Kind]
	if !ok {
		return rewards.Score{}, fmt.Errorf("DeepEyes has no kind %q: it is visual, reasoning or math", d.Kind)
	}
	if item.Transcript == nil || len(item.Transcript.Turns) == 0 {
		return rewards.Score{}, errNoReply
	}
	truth, err := item.Meta.Text("answer")
	if err != nil {
		return rewards.Score{}, err
	}
	var reply strings.Builder
	for _, t := range item.Transcript.Turns {
		reply.WriteString(t.Text)
	}
	read := kind.read(reply.String())
	read.Pictures = max(read.Pictures, item.Transcript.Pictures)
	s := rewards.Score{}
	judgement := answers.Wrong
	switch {
	case !read.NeedsJudge:
		s.Because("format", "no answer that counts")
	case d.Kind == "math" && d.Proved != nil && d.Proved(read.Answer, truth):
		judgement = answers.Right
	default:
		text, err := FillTemplate(kind.question, Blanks{Prompt: asked(item), Truth: truth, Answer: read.Answer})
		if err != nil {
			return s, err
		}
		said, err := insist(ctx, d.Model, nil, text, d.Tries, func(reply string) bool {
			judgement = kind.judgement(reply)
			return judgement != answers.Unclear
		})
		if err != nil {
			return s, err
		}
		s.Because("judge", "%s", said)
	}
	if s.Value = read.Reward(judgement); d.Kind == "math" {
		s.Value = read.MathsReward(judgement)
	}
	s.Because("answer", "%s", read.Answer)
	return s, nil
}

// deepEyes is the form of a kind.
func deepEyes(kind, card string) Form {
	return Form{
		Name:     "deepeyes_" + kind,
		Card:     card,
		Judges:   rewards.Replies,
		Truth:    true,
		Nameless: true,
		New:      func(_ Options, m Model) (rewards.Reward, error) { return DeepEyes{Model: m, Kind: kind}, nil },
	}
}

// Forms of DeepEyes.
var (
	DeepEyesVisualForm    = deepEyes("visual", "Whether an answer about a picture is right, and its form (DeepEyes).")
	DeepEyesReasoningForm = deepEyes("reasoning", "Whether an answer by reasoning is right, and its form (DeepEyes).")
	DeepEyesMathForm      = deepEyes("math", "Whether a boxed answer is right, and its form (DeepEyes).")
)
