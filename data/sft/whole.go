package sft

import (
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: TRL's rule (its training templates with transformers' return_assistant_tokens_mask). The
// conversation is rendered and tokenised as a whole; an answer reaches from the newline behind
// "<|im_start|>assistant" to the one behind "<|im_end|>", calls of tools among it, and a token
// that touches an answer is trained, also where it begins before it. TRL at f2cd577 refuses the
// rule for vision models; its templates for text are these.
//
// The invariant: tokens are those of vlm's Render and Encode, so those of a rollout. Held to
// sft.tokens.

// Whole is a lesson by TRL's rule. Clips, which TRL has none of, are as in a rollout: a grid for each mark.
func (r Reader) Whole(messages []vlm.Message, how vlm.Rendering, pictures, clips []vlm.Grid) (Lesson, error) {
	text, spans, err := r.Template.Marked(messages, how)
	if err != nil {
		return Lesson{}, err
	}
	ids, ends, err := r.Tokens.Ends(text)
	if err != nil {
		return Lesson{}, err
	}
	l := Lesson{IDs: ids, Trained: make([]bool, len(ids))}
	for _, s := range spans {
		from, to := len(r.Tokens.Normalized(text[:s.From])), len(r.Tokens.Normalized(text[:s.To]))
		begin := 0
		for i, end := range ends {
			l.Trained[i] = l.Trained[i] || begin < to && end > from
			begin = end
		}
	}
	return r.expanded(l, pictures, clips)
}
