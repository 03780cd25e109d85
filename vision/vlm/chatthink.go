package vlm

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: the templates of models that think before they answer. A thought stands between <think> and </think>, or in
// reasoning_content. It is written for turns behind the user's last query alone, since earlier thoughts are not
// read again; a user's turn that is a reply of a tool is no query.
//
//	qwen3_vl_thinking  as qwen3_vl, but that system turns are written wherever they stand, and pictures of the
//	                   assistant; a thought that is empty is written in the last turn alone
//	qwen3_5_think      calls are written as <function=NAME> with a <parameter=NAME> each, contents without white
//	                   space around them; a second system turn, other roles, pictures in the system turn and
//	                   conversations without a query are refused; the turn that is begun thinks
//	qwen3_5_nothink    the same, but the turn that is begun has an empty thought
//	qwen3_6            as qwen3_5_think, but parameters that are no text are JSON ("true", not "True"), and earlier
//	                   thoughts may be kept
//
// Held to testdata/chat, which transformers rendered.

// thinking writes a conversation in one of these forms.
type thinking struct {
	*page
	form  Template
	asked Rendering
}

// beginning is how the turn that is begun opens.
func (t Template) beginning(r Rendering) string {
	const open, empty = "<think>\n", "<think>\n\n</think>\n\n"
	think := t != Qwen35NoThink
	if r.Think != nil {
		think = *r.Think
	}
	switch {
	case t < Qwen3VLThinking:
		return ""
	case think || t == Qwen3VLThinking:
		return open
	}
	return empty
}

// third reports whether the form is one of Qwen3.5's and Qwen3.6's.
func (t Template) third() bool { return t > Qwen3VLThinking }

func (k thinking) render(messages []Message) error {
	if len(messages) == 0 {
		return fmt.Errorf("a conversation without messages: %v needs one", k.form)
	}
	if err := k.check(messages); err != nil {
		return err
	}
	k.head(messages[0])
	last := k.query(messages)
	for i, m := range messages {
		content := k.content(m, true)
		switch {
		case m.Role == "user" || m.Role == "system" && i > 0:
			k.write(turn, m.Role, "\n", content, turnEnd)
		case m.Role == "assistant":
			from := k.Len()
			k.says(m, content, i > last, i == len(messages)-1)
			k.answered(from)
		case m.Role == "tool":
			if first := i == 0; first && !k.form.third() || !first && messages[i-1].Role != "tool" {
				k.write(turn, "user")
			}
			k.write("\n<tool_response>\n", content, "\n</tool_response>")
			if i == len(messages)-1 || messages[i+1].Role != "tool" {
				k.write(turnEnd)
			}
		}
	}
	return nil
}

// check refuses what the template refuses.
func (k thinking) check(messages []Message) error {
	if !k.form.third() {
		return nil
	}
	for i, m := range messages {
		switch m.Role {
		case "user", "assistant", "tool":
		case "system":
			if i > 0 {
				return fmt.Errorf("messages[%d] is of the system: %v has such a turn at the beginning alone", i, k.form)
			}
			for _, part := range m.Content {
				if part.Kind != TextPart {
					return fmt.Errorf("messages[%d] is of the system and has a picture or a clip: %v refuses it", i, k.form)
				}
			}
		default:
			return fmt.Errorf("messages[%d] has the role %q: %v knows system, user, assistant and tool", i, m.Role, k.form)
		}
		for j, c := range m.Calls {
			if _, ok := c.Arguments.(pytext.Ordered); !ok {
				return fmt.Errorf("messages[%d].tool_calls[%d]: %v writes a parameter a line: \"arguments\" must be an object", i, j, k.form)
			}
		}
	}
	if k.query(messages) < 0 {
		return fmt.Errorf("a conversation without a query of the user: %v needs one", k.form)
	}
	return nil
}

// content is a message's, as one text.
func (k thinking) content(m Message, counted bool) string {
	in := &page{number: k.number, still: !counted, pictures: k.pictures, clips: k.clips}
	in.parts(m.Content)
	k.pictures, k.clips = in.pictures, in.clips
	if k.form.third() {
		return pytext.Strip(in.String())
	}
	return in.String()
}

// query is the place of the user's last turn that is no reply of a tool. Where there is none, Qwen3-VL's has the last
// message, and the others -1.
func (k thinking) query(messages []Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != "user" {
			continue
		}
		text := k.content(messages[i], false)
		if !strings.HasPrefix(text, "<tool_response>") || !strings.HasSuffix(text, "</tool_response>") {
			return i
		}
	}
	if k.form.third() {
		return -1
	}
	return len(messages) - 1
}

const functionTail = "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within <tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after\n- If there is no function call available, answer the question like normal with your current knowledge and do not tell the user about function calls\n</IMPORTANT>"

// head is the first system turn. Tools stand before its text in Qwen3.5's, and behind it in Qwen3-VL's.
func (k thinking) head(first Message) {
	tools, system := k.asked.Tools, first.Role == "system"
	if !system && len(tools) == 0 {
		return
	}
	text := ""
	if system {
		text = k.content(first, false)
	}
	k.write(turn, "system\n")
	switch {
	case len(tools) == 0:
		k.write(text)
	case k.form.third():
		k.write("# Tools\n\nYou have access to the following functions:\n\n<tools>")
		for _, tool := range tools {
			k.write("\n", pytext.Dumps(tool))
		}
		k.write(functionTail)
		if text != "" {
			k.write("\n\n", text)
		}
	default:
		if system {
			k.write(text, "\n\n")
		}
		k.write(ToolsText(tools))
	}
	k.write(turnEnd)
}

// says is a turn of the assistant, behind the last query or before it.
func (k thinking) says(m Message, content string, behind, last bool) {
	thought, said := apart(m, content)
	k.write(turn, "assistant\n")
	switch third := k.form.third(); {
	case third && (behind || k.form == Qwen36 && k.asked.KeepThoughts):
		k.write("<think>\n", pytext.Strip(thought), "\n</think>\n\n", said)
	case !third && behind && (last || thought != ""):
		k.write("<think>\n", strings.Trim(thought, "\n"), "\n</think>\n\n", strings.TrimLeft(said, "\n"))
	default:
		k.write(said)
	}
	for i, c := range m.Calls {
		if k.form.third() {
			k.function(i, c, said)
			continue
		}
		if i > 0 || said != "" {
			k.write("\n")
		}
		arguments, isText := c.Arguments.(string)
		if !isText {
			arguments = pytext.Dumps(c.Arguments)
		}
		k.write("<tool_call>\n{\"name\": \"", c.Name, "\", \"arguments\": ", arguments, "}\n</tool_call>")
	}
	k.write(turnEnd)
}

// apart takes what the assistant thought and what it said from each other.
func apart(m Message, content string) (thought, said string) {
	if m.Thought != nil {
		return *m.Thought, content
	}
	before, _, found := strings.Cut(content, "</think>")
	if !found {
		return "", content
	}
	thought = pytext.Last(strings.TrimRight(before, "\n"), "<think>")
	return strings.TrimLeft(thought, "\n"), strings.TrimLeft(pytext.Last(content, "</think>"), "\n")
}

// function is a call of a tool in Qwen3.5's form.
func (k thinking) function(i int, c Call, said string) {
	switch {
	case i > 0:
		k.write("\n")
	case pytext.Strip(said) != "":
		k.write("\n\n")
	}
	k.write("<tool_call>\n<function=", c.Name, ">\n")
	given := c.Arguments.(pytext.Ordered) // check
	for _, name := range given.Keys {
		k.write("<parameter=", name, ">\n", k.parameter(given.Values[name]), "\n</parameter>\n")
	}
	k.write("</function>\n</tool_call>")
}

// parameter is a value as the form writes it: lists and objects as JSON, others as Python prints them, or JSON too.
func (k thinking) parameter(v any) string {
	_, list := v.([]any)
	_, object := v.(pytext.Ordered)
	_, text := v.(string)
	if list || object || k.form == Qwen36 && !text {
		return pytext.Dumps(v)
	}
	return pytext.Str(v)
}
