package sft

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Conversation is a row of a data set as a template reads it.
type Conversation struct {
	Messages []vlm.Message
	Tools    []any
	Pictures []string // names of files, in the order of their marks
	Clips    []string // the same of clips
}

// roles are ShareGPT's parties in a template's words, and a template's own.
var roles = map[string]string{"human": "user", "gpt": "assistant", "function_call": "assistant", "observation": "tool",
	"user": "user", "assistant": "assistant", "system": "system", "tool": "tool"}

// ReadConversation reads a row of JSON in OpenAI's form ("messages", or TRL's "prompt" with
// "completion") or ShareGPT's ("conversations"). Pictures are parts of a message that name a file
// ("image"), or "<image>" in its text with their names in "images"; clips are "video", "<video>" and "videos" in the
// same places. "tools" and "system" are the row's own.
func ReadConversation(text string) (c Conversation, err error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return c, err
	}
	o, ok := v.(pytext.Ordered)
	if !ok {
		return c, errors.New("an object was expected")
	}
	list, key, err := turnsOf(o)
	if err != nil {
		return c, err
	}
	if c, err = conversationOf(o, list, key); err != nil {
		return c, err
	}
	return c, c.check()
}

// conversationOf returns a row's list of turns, with the row's other columns.
func conversationOf(o pytext.Ordered, list []any, key string) (c Conversation, err error) {
	if c.Tools, err = toolsOf(o.Values["tools"]); err != nil {
		return c, fmt.Errorf("tools: %w", err)
	}
	if system, _ := o.Values["system"].(string); system != "" {
		c.Messages = append(c.Messages, vlm.Message{Role: "system", Content: vlm.Text(system)})
	}
	listed, named := map[vlm.PartKind][]string{}, map[vlm.PartKind][]string{}
	for _, kind := range []vlm.PartKind{vlm.PicturePart, vlm.ClipPart} {
		if listed[kind], err = namesOf(o, shown[kind]); err != nil {
			return c, err
		}
	}
	for i, e := range list {
		m, err := messageOf(e, listed, named)
		if err != nil {
			return c, fmt.Errorf("%s[%d]: %w", key, i, err)
		}
		c.Messages = append(c.Messages, m)
	}
	for kind, names := range listed {
		if len(names) > 0 {
			named[kind] = names
		}
	}
	c.Pictures, c.Clips = named[vlm.PicturePart], named[vlm.ClipPart]
	return c, nil
}

// turnsOf is a row's list of turns.
func turnsOf(o pytext.Ordered) (list []any, key string, err error) {
	for _, key := range []string{"messages", "conversations"} {
		if list, ok := o.Values[key].([]any); ok {
			return list, key, nil
		}
	}
	prompt, ok := o.Values["prompt"].([]any)
	completion, ok2 := o.Values["completion"].([]any)
	if !ok || !ok2 {
		return nil, "", errors.New(`no list "messages", nor "conversations", nor "prompt" with "completion"`)
	}
	return append(prompt[:len(prompt):len(prompt)], completion...), "prompt and completion", nil
}

// messageOf is a turn; the files that its parts name are added to named. Where a row lists its pictures, "<image>" in a
// text is one of them, and "<video>" a clip.
func messageOf(v any, listed, named map[vlm.PartKind][]string) (m vlm.Message, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return m, errors.New("an object was expected")
	}
	by, _ := o.Values["role"].(string)
	content, given := o.Values["content"]
	if from, ok := o.Values["from"].(string); ok {
		by = from
		content, given = o.Values["value"]
	}
	if m.Role, ok = roles[by]; !ok {
		return m, fmt.Errorf("a turn of %q: system, user, assistant and tool are known, and ShareGPT's human, gpt, function_call and observation", by)
	}
	if by == "function_call" {
		text, _ := content.(string)
		m.Calls, err = callsIn(text)
		return m, err
	}
	switch content := content.(type) {
	case string:
		m.Content = parts(content, listed)
	case []any:
		for i, e := range content {
			p, err := partOf(e, listed, named)
			if err != nil {
				return m, fmt.Errorf("content[%d]: %w", i, err)
			}
			m.Content = append(m.Content, p...)
		}
	case nil:
		if !given && o.Values["tool_calls"] == nil {
			return m, errors.New("it has no content")
		}
	default:
		return m, errors.New("content: a text or a list of parts was expected")
	}
	calls, _ := o.Values["tool_calls"].([]any)
	for i, e := range calls {
		call, err := callOf(e)
		if err != nil {
			return m, fmt.Errorf("tool_calls[%d]: %w", i, err)
		}
		m.Calls = append(m.Calls, call)
	}
	return m, nil
}

// callOf is one of OpenAI's calls; arguments that are JSON in a text stay a text.
func callOf(v any) (c vlm.Call, err error) {
	o, _ := v.(pytext.Ordered)
	if f, ok := o.Values["function"].(pytext.Ordered); ok {
		o = f
	}
	name, ok := o.Values["name"].(string)
	arguments, given := o.Values["arguments"]
	if !ok || !given {
		return c, errors.New(`"name" and "arguments" were expected`)
	}
	return vlm.Call{Name: name, Arguments: arguments}, nil
}

// callsIn are the calls of ShareGPT's function_call: an object, or a list of them.
func callsIn(text string) (calls []vlm.Call, err error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return nil, fmt.Errorf("a turn that calls tools: %w", err)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		c, err := callOf(e)
		if err != nil {
			return nil, fmt.Errorf("a turn that calls tools: %w", err)
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// check: there is something to learn, and a picture for each mark.
func (c Conversation) check() error {
	if !slices.ContainsFunc(c.Messages, func(m vlm.Message) bool { return m.Role == "assistant" }) {
		return errors.New("the assistant says nothing: there is nothing to learn")
	}
	return c.checkMarks()
}

// Question is the first thing that is said to the assistant, for people.
func (c Conversation) Question() string {
	for _, m := range c.Messages {
		if m.Role != "user" {
			continue
		}
		var b strings.Builder
		for _, p := range m.Content {
			b.WriteString(p.Text)
		}
		if s := strings.TrimSpace(b.String()); s != "" {
			return s
		}
	}
	return "a conversation"
}

// Last is the text of the last message, for people and for rewards.
func (c Conversation) Last() string {
	var b strings.Builder
	if n := len(c.Messages); n > 0 {
		for _, p := range c.Messages[n-1].Content {
			b.WriteString(p.Text)
		}
	}
	return strings.TrimSpace(b.String())
}

// ReadAsked reads a row's messages before the assistant's turn: "prompt" as a list of messages (verl's
// rows, TRL's), with "images", "tools" and "system" as in ReadConversation. Such a conversation ends with the user.
func ReadPrompt(text string) (c Conversation, err error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return c, err
	}
	o, ok := v.(pytext.Ordered)
	if !ok {
		return c, errors.New("an object was expected")
	}
	list, ok := o.Values["prompt"].([]any)
	if !ok {
		return c, errors.New(`"prompt": a list of messages was expected`)
	}
	if c, err = conversationOf(o, list, "prompt"); err != nil {
		return c, err
	}
	switch n := len(c.Messages); {
	case n == 0:
		return c, errors.New(`"prompt" has no message`)
	case c.Messages[n-1].Role != "user":
		return c, fmt.Errorf(`"prompt" ends with a turn of %q, and the user's was expected`, c.Messages[n-1].Role)
	}
	return c, c.checkMarks()
}

// checkMarks: a picture or a clip for each mark.
func (c Conversation) checkMarks() error {
	marks := map[vlm.PartKind]int{}
	for _, m := range c.Messages {
		for _, p := range m.Content {
			marks[p.Kind]++
		}
	}
	if n := marks[vlm.PicturePart]; n != len(c.Pictures) {
		return fmt.Errorf("%w: %d pictures, and %d marks in the messages", ErrPictures, len(c.Pictures), n)
	}
	if n := marks[vlm.ClipPart]; n != len(c.Clips) {
		return fmt.Errorf("%w: %d clips, and %d marks in the messages", ErrPictures, len(c.Clips), n)
	}
	return nil
}
