package conversations

import (
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: how a model is told of its tools (vision/tools/instructions.go): a system message, and what stands around the
// user's first message. Training, evaluation, lessons, ask and suites tell it by this one function.
//
//	a row with a system message               has told the model itself: nothing is added
//	a row with tools that the template writes  likewise, but for a system message that the experiment's file gives
//	a message that has the words already       stands as it is
//
// Invariant (test): the tokens that a model reads first are those of upstream's messages by the same template.

// Told is the question with the instructions of an episode, for a model that lies at such a path.
func (q Question) Told(e *experiment.Episode, model string, form vlm.Template) (Question, error) {
	in, err := e.Instructions(model)
	if err != nil {
		return q, err
	}
	q.text = q.said()
	q.Messages = instructed(in, q.Messages, len(q.Tools) > 0 && form.WritesTools(), q.Pictures)
	return q, nil
}

// instructed are messages with instructions.
func instructed(in tools.Instructions, messages []vlm.Message, has bool, shown []*vision.Image) []vlm.Message {
	if len(messages) > 0 && messages[0].Role == "system" || has && in.Source != "" {
		return messages
	}
	var out []vlm.Message
	if in.System != "" {
		out = append(out, vlm.Message{Role: "system", Content: vlm.Text(in.System)})
	}
	width, height := 0, 0
	if len(shown) > 0 {
		width, height = shown[0].Width, shown[0].Height
	}
	before, behind := in.Around(width, height)
	asked := false
	for _, m := range messages {
		if m.Role == "user" && !asked {
			m.Content, asked = around(m.Content, before, behind), true
		}
		out = append(out, m)
	}
	return out
}

// around is a content with words before its first text and behind its last, unless they are there.
func around(content []vlm.Part, before, behind string) []vlm.Part {
	first, last := -1, -1
	var said strings.Builder
	for i, part := range content {
		if part.Kind == vlm.TextPart {
			said.WriteString(part.Text)
			if last = i; first < 0 {
				first = i
			}
		}
	}
	if first < 0 || says(said.String(), before) && says(said.String(), behind) {
		return content
	}
	out := append([]vlm.Part(nil), content...)
	out[first].Text = before + out[first].Text
	out[last].Text += behind
	return out
}

// says is whether a text has words, whatever space stands about them.
func says(text, words string) bool { return strings.Contains(text, strings.TrimSpace(words)) }
