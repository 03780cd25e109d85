package chat

import (
	"strings"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Prompt is the subject of an episode.
type Prompt struct {
	Messages []vlm.Message // with as many pictures
	Pictures []*vision.Image
	Clips    []*video.Clip // with as many marks in the messages
	Tools    []any         // that the template writes, as pytext.OrderedJSON reads them
	Meta     prompts.Meta  // the list's metadata beside it

	Question string // the text of the user, without instructions
	// By says how its tools are called; nil: as the policy does.
	Episode *experiment.Episode
}

// NewPrompt is a text with pictures before it.
func NewPrompt(text string, pictures ...*vision.Image) Prompt { return PromptOf(text, nil, pictures) }

// place is the mark of the next picture in a text, where a row has one for each.
const place = "<image>"

// PromptOf is a text with videos before it, and pictures behind them, or at their marks in the text.
func PromptOf(text string, clips []*video.Clip, pictures []*vision.Image) Prompt {
	var content []vlm.Part
	for range clips {
		content = append(content, vlm.Part{Kind: vlm.ClipPart})
	}
	if n := strings.Count(text, place); n > 0 && n == len(pictures) {
		for i, said := range strings.Split(text, place) {
			if i > 0 {
				content = append(content, vlm.Part{Kind: vlm.PicturePart})
			}
			content = append(content, vlm.Text(said)...)
		}
		return Prompt{Messages: []vlm.Message{{Role: "user", Content: content}}, Pictures: pictures, Clips: clips}
	}
	for range pictures {
		content = append(content, vlm.Part{Kind: vlm.PicturePart})
	}
	return Prompt{Messages: []vlm.Message{{Role: "user", Content: append(content, vlm.Text(text)...)}}, Pictures: pictures, Clips: clips}
}

// Card: instructions of tools (vision/tools/instructions.go) as a model reads them: a system message, and texts around
// the user's first message. Training, evaluation, lessons, ask and suites use this one function.
//
//	a row with a system message               has instructions of its own: nothing is added
//	a row with tools that the template writes  likewise, but for a system message that the experiment's file gives
//	a message that has the words already       stays as it is
//
// Invariant (test): the tokens that a model reads first are those of upstream's messages by the same template.

// WithInstructions is the prompt with the instructions of an episode, for a model that lies at such a path.
func (q Prompt) WithInstructions(e *experiment.Episode, model string, form vlm.Template) (Prompt, error) {
	in, err := e.Instructions(model)
	if err != nil {
		return q, err
	}
	q.Question = q.UserText()
	q.Messages = Instruct(in, q.Messages, len(q.Tools) > 0 && form.WritesTools(), q.Pictures)
	return q, nil
}

// Instruct are messages with instructions.
func Instruct(in tools.Instructions, messages []vlm.Message, has bool, shown []*vision.Image) []vlm.Message {
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

// says reports whether a text has words, whatever space is around them.
func says(text, words string) bool { return strings.Contains(text, strings.TrimSpace(words)) }

// UserText is the text of the user.
func (q Prompt) UserText() (text string) {
	for _, m := range q.Messages {
		if m.Role == "user" {
			for _, part := range m.Content {
				text += part.Text
			}
		}
	}
	return text
}
