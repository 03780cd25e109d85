package vlm

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// A Message is a turn of a conversation.
type Message struct {
	Role    string // system, user, assistant, tool
	Content []Part
	Calls   []Call
	Thought *string // before the content, where it is given by itself (reasoning_content)
}

// A Part is a stretch of a message.
type Part struct {
	Kind PartKind
	Text string // of a picture, too, where a list gives both
}

// A PartKind is what a part holds.
type PartKind int

const (
	TextPart PartKind = iota
	PicturePart
	ClipPart
)

// Text is a message's content where it holds text alone; "" is no content.
func Text(s string) []Part {
	if s == "" {
		return nil
	}
	return []Part{{TextPart, s}}
}

// A Call is a tool that the assistant called.
type Call struct {
	Name      string
	Arguments any // as pytext.OrderedJSON reads them; a string is a text of them
}

// ReadMessages reads a conversation in the form that OpenAI's protocol and the templates share: a
// list of {"role", "content", "tool_calls", "reasoning_content"}, content a text or a list of parts. A part is a
// picture if its type is "image" or it has "image" or "image_url", a clip likewise with
// "video", else its "text" counts. Other keys are let pass.
func ReadMessages(text string) ([]Message, error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	return messagesOf(v)
}

func messagesOf(v any) ([]Message, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("messages: a list was expected")
	}
	all := make([]Message, len(list))
	for i, e := range list {
		var err error
		if all[i], err = messageOf(e); err != nil {
			return nil, fmt.Errorf("messages[%d]%w", i, err)
		}
	}
	return all, nil
}

func messageOf(v any) (m Message, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return m, fmt.Errorf(": an object was expected")
	}
	if m.Role, ok = o.Values["role"].(string); !ok {
		return m, fmt.Errorf(`.role: one of "system", "user", "assistant", "tool" was expected`)
	}
	switch content := o.Values["content"].(type) {
	case nil:
	case string:
		m.Content = Text(content)
	case []any:
		m.Content = make([]Part, len(content))
		for i, e := range content {
			if m.Content[i], err = partOf(e); err != nil {
				return m, fmt.Errorf(".content[%d]%w", i, err)
			}
		}
	default:
		return m, fmt.Errorf(".content: a text or a list of parts was expected")
	}
	if thought, ok := o.Values["reasoning_content"].(string); ok {
		m.Thought = &thought
	}
	calls, ok := o.Values["tool_calls"].([]any)
	if !ok && o.Values["tool_calls"] != nil {
		return m, fmt.Errorf(".tool_calls: a list was expected")
	}
	for i, e := range calls {
		call, err := callOf(e)
		if err != nil {
			return m, fmt.Errorf(".tool_calls[%d]%w", i, err)
		}
		m.Calls = append(m.Calls, call)
	}
	return m, nil
}

func partOf(v any) (p Part, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return p, fmt.Errorf(": an object was expected")
	}
	has := func(kind string, keys ...string) bool {
		for _, k := range keys {
			if _, ok := o.Values[k]; ok {
				return true
			}
		}
		return o.Values["type"] == kind
	}
	switch {
	case has("image", "image", "image_url"):
		p.Kind = PicturePart
	case has("video", "video"):
		p.Kind = ClipPart
	}
	text, given := o.Values["text"]
	if p.Text, ok = text.(string); given && !ok {
		return p, fmt.Errorf(".text: a text was expected")
	}
	return p, nil
}

func callOf(v any) (c Call, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return c, fmt.Errorf(": an object was expected")
	}
	if inner, ok := o.Values["function"].(pytext.Ordered); ok {
		o = inner
	}
	if c.Name, ok = o.Values["name"].(string); !ok {
		return c, fmt.Errorf(": a name was expected")
	}
	if c.Arguments, ok = o.Values["arguments"]; !ok {
		return c, fmt.Errorf(`: "arguments" are missing; {} says that there are none`)
	}
	return c, nil
}

// ReadTools reads a list of tools: JSON objects that templates write as they are.
func ReadTools(text string) ([]any, error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("tools: a list was expected")
	}
	for i, e := range list {
		if _, ok := e.(pytext.Ordered); !ok {
			return nil, fmt.Errorf("tools[%d]: an object was expected", i)
		}
	}
	return list, nil
}
