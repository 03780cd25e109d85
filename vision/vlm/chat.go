package vlm

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: conversations as the published templates write them. A folder holds its template as a
// Jinja program; weights saw the output of one of seven, which are written here as Go, since a
// program from a stranger's folder can run for ever. Which one a folder has is found in chatfile.go.
//
//	qwen2_5_vl  Qwen2-VL and Qwen2.5-VL: tools and calls of tools are NOT written, a tool's reply
//	            is a turn of its own role, a system turn is added where the first is none
//	qwen3_vl    tools and calls written, replies that follow each other share a user's turn;
//	            system turns that are not the first and other roles are not written
//	qwen2_5     Qwen2.5, text alone: as qwen3_vl, with a system text of its own
//
// and those of models that think first (chatthink.go). Held to vlm.chat_template.

// A Template is a published form of conversations.
type Template int

const (
	Qwen25VL Template = iota // Qwen2-VL's, too
	Qwen3VL
	Qwen25
	Qwen3VLThinking
	Qwen35Think   // Qwen3.5 from 4B on: it thinks unless it is told not to
	Qwen35NoThink // Qwen3.5 up to 2B: it thinks where it is told to
	Qwen36
)

var templateNames = []string{Qwen25VL: "qwen2_5_vl", Qwen3VL: "qwen3_vl", Qwen25: "qwen2_5",
	Qwen3VLThinking: "qwen3_vl_thinking", Qwen35Think: "qwen3_5_think", Qwen35NoThink: "qwen3_5_nothink", Qwen36: "qwen3_6"}

func (t Template) String() string {
	if t < 0 || int(t) >= len(templateNames) {
		return fmt.Sprintf("template %d", int(t))
	}
	return templateNames[t]
}

// TemplateNamed finds a template by its name.
func TemplateNamed(name string) (Template, error) {
	for t, n := range templateNames {
		if n == name {
			return Template(t), nil
		}
	}
	if t, ok := map[string]Template{"qwen2_vl": Qwen25VL, "qwen3_5": Qwen35Think}[name]; ok {
		return t, nil
	}
	return 0, fmt.Errorf("a chat template named %q is not known; %s are", name, strings.Join(templateNames, ", "))
}

// WritesTools reports whether the template tells the model of a row's tools.
func (t Template) WritesTools() bool { return t != Qwen25VL }

// Rendering is what a template is asked for beside the conversation.
type Rendering struct {
	Tools    []any // as pytext.OrderedJSON reads them
	Generate bool  // end with the assistant's turn begun
	Number   bool  // "Picture 1: " before pictures
	// Of models that think first. Think says whether the turn that is begun thinks; nil: as the template has it.
	// KeepThoughts writes the thoughts of earlier turns, too (Qwen3.6).
	Think        *bool
	KeepThoughts bool
}

// The parts of a turn.
const (
	turn     = "<|im_start|>"
	turnEnd  = "<|im_end|>\n"
	picture  = "<|vision_start|><|image_pad|><|vision_end|>"
	clip     = "<|vision_start|><|video_pad|><|vision_end|>"
	toolHead = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>"
	toolTail = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
)

// A page is a text in the making.
type page struct {
	strings.Builder
	number          bool
	still           bool // pictures are not counted
	pictures, clips int
	spans           []Span // of the assistant's turns
}

func (p *page) write(all ...string) {
	for _, s := range all {
		p.WriteString(s)
	}
}

// parts writes a content with its pictures.
func (p *page) parts(content []Part) {
	for _, part := range content {
		switch part.Kind {
		case PicturePart:
			p.count("Picture", &p.pictures)
			p.write(picture)
		case ClipPart:
			p.count("Video", &p.clips)
			p.write(clip)
		default:
			p.write(part.Text)
		}
	}
}

func (p *page) count(what string, n *int) {
	if !p.still {
		*n++
	}
	if p.number {
		fmt.Fprintf(p, "%s %d: ", what, *n)
	}
}

// texts writes the texts of a content alone.
func (p *page) texts(content []Part) {
	for _, part := range content {
		p.write(part.Text)
	}
}

// Render is a conversation as text. The number of <|image_pad|> is that of the pictures that
// must be handed on.
func (t Template) Render(messages []Message, r Rendering) (string, error) {
	p := &page{number: r.Number}
	if err := t.render(p, messages, r); err != nil {
		return "", err
	}
	return p.String(), nil
}

func (t Template) render(p *page, messages []Message, r Rendering) error {
	switch t {
	case Qwen25VL:
		p.plain(messages)
	case Qwen3VL, Qwen25:
		if len(messages) == 0 {
			return fmt.Errorf("a conversation without messages: %v needs one", t)
		}
		if t == Qwen25 {
			if err := textAlone(messages); err != nil {
				return err
			}
		}
		t.head(p, messages[0], r.Tools)
		t.turns(p, messages)
	case Qwen3VLThinking, Qwen35Think, Qwen35NoThink, Qwen36:
		if err := (thinking{page: p, form: t, asked: r}).render(messages); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%v is not known", t)
	}
	if r.Generate {
		p.write(turn, "assistant\n", t.beginning(r))
	}
	return nil
}

func textAlone(messages []Message) error {
	for i, m := range messages {
		for _, part := range m.Content {
			if part.Kind != TextPart {
				return fmt.Errorf("messages[%d] has a picture: %v is for text alone", i, Qwen25)
			}
		}
	}
	return nil
}

// plain is Qwen2.5-VL's.
func (p *page) plain(messages []Message) {
	for i, m := range messages {
		if i == 0 && m.Role != "system" {
			p.write(turn, "system\nYou are a helpful assistant.", turnEnd)
		}
		from := p.Len()
		p.write(turn, m.Role, "\n")
		p.parts(m.Content)
		p.write(turnEnd)
		if m.Role == "assistant" {
			p.answered(from)
		}
	}
}

// head is the first system turn.
func (t Template) head(p *page, first Message, tools []any) {
	system := first.Role == "system"
	if !system && len(tools) == 0 && t == Qwen3VL {
		return
	}
	p.write(turn, "system\n")
	if system {
		p.texts(first.Content)
	} else if t == Qwen25 {
		p.write("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")
	}
	if len(tools) > 0 {
		if system || t == Qwen25 {
			p.write("\n\n")
		}
		p.write(ToolsText(tools))
	}
	p.write(turnEnd)
}

// ToolsText is how a system turn lists tools.
func ToolsText(tools []any) string {
	text := toolHead
	for _, tool := range tools {
		text += "\n" + pytext.Dumps(tool)
	}
	return text + toolTail
}

func (t Template) turns(p *page, messages []Message) {
	for i, m := range messages {
		switch {
		case m.Role == "user" || t == Qwen25 && m.Role == "system" && i > 0:
			p.write(turn, m.Role, "\n")
			p.parts(m.Content)
			p.write(turnEnd)
		case m.Role == "assistant":
			from := p.Len()
			t.assistant(p, m)
			p.answered(from)
		case m.Role == "tool":
			if i == 0 || messages[i-1].Role != "tool" {
				p.write(turn, "user")
			}
			p.write("\n<tool_response>\n")
			p.parts(m.Content)
			p.write("\n</tool_response>")
			if i == len(messages)-1 || messages[i+1].Role != "tool" {
				p.write(turnEnd)
			}
		}
	}
}

func (t Template) assistant(p *page, m Message) {
	p.write(turn, "assistant")
	if t == Qwen3VL || len(m.Calls) == 0 || len(m.Content) > 0 {
		p.write("\n")
		p.texts(m.Content)
	}
	for i, c := range m.Calls {
		if t == Qwen25 || i > 0 || len(m.Content) > 0 {
			p.write("\n")
		}
		arguments, isText := c.Arguments.(string)
		if !isText || t == Qwen25 {
			arguments = pytext.Dumps(c.Arguments)
		}
		p.write("<tool_call>\n{\"name\": \"", c.Name, "\", \"arguments\": ", arguments, "}\n</tool_call>")
	}
	p.write(turnEnd)
}

// A Span is a stretch of a rendered conversation, in bytes.
type Span struct{ From, To int }

// Marked is Render, and where the assistant's turns stand: from behind "<|im_start|>assistant" and
// its newline to the newline behind "<|im_end|>", which the model shall write as well. Spans are
// in the order of turns; a conversation without an assistant has none.
func (t Template) Marked(messages []Message, r Rendering) (text string, spans []Span, err error) {
	p := &page{number: r.Number}
	err = t.render(p, messages, r)
	return p.String(), p.spans, err
}

// answered notes that the assistant's turn, which began at a place, has ended.
func (p *page) answered(from int) {
	p.spans = append(p.spans, Span{from + len(turn+"assistant\n"), p.Len()})
}
