package sft

import (
	"errors"
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Rows as LLaMA-Factory's converters read them (data/converter.py).

// A Format is how a data set writes conversations.
type Format int

const (
	// OpenAI is "messages" with "role", "content" and "tool_calls". Replies of tools that follow
	// each other are one turn; the text of a turn with calls is dropped; "detailed thinking off"
	// is added to the system's text where there are no tools.
	OpenAI Format = iota
	// ShareGPT is "conversations" with "from" (human, gpt, function_call, observation, system) and
	// "value".
	ShareGPT
	// Messages is ShareGPT in OpenAI's words: "messages", "role" (user, assistant, system), "content".
	Messages
)

// Formats are the formats' names in upstream's settings.
var Formats = map[string]Format{"openai": OpenAI, "sharegpt": ShareGPT, "sharegpt_messages": Messages}

// ErrDropped is the error of a row that upstream leaves out with a warning: its turns do not
// alternate, or it does not end with an answer.
var ErrDropped = errors.New("the conversation does not alternate between what is said to the assistant and its answers: LLaMA-Factory leaves it out")

// The parties of a turn.
const (
	userTurn     = "user"
	replyTurn    = "observation" // of tools
	answerTurn   = "assistant"
	functionTurn = "function" // calls of tools, as JSON
)

// said is a turn.
type said struct{ by, text string }

// Row is a row as LLaMA-Factory reads it.
type Row struct {
	system string
	tools  []any
	turns  []said
}

// tags are how a format names its parts.
type tags struct {
	list, by, text string
	parties        map[string]string
}

var formatTags = map[Format]tags{
	OpenAI:   {"messages", "role", "content", map[string]string{"user": userTurn, "assistant": answerTurn, "function": functionTurn, "tool": replyTurn}},
	Messages: {"messages", "role", "content", map[string]string{"user": userTurn, "assistant": answerTurn, "function_call": functionTurn, "observation": replyTurn}},
	ShareGPT: {"conversations", "from", "value", map[string]string{"human": userTurn, "gpt": answerTurn, "function_call": functionTurn, "observation": replyTurn}},
}

// ReadRow reads a row of JSON; pictures are "<image>" in its texts.
func ReadRow(text string, f Format) (Row, error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return Row{}, err
	}
	o, ok := v.(pytext.Ordered)
	if !ok {
		return Row{}, errors.New("an object was expected")
	}
	t := formatTags[f]
	list, ok := o.Values[t.list].([]any)
	if !ok {
		return Row{}, fmt.Errorf("%q: a list of turns was expected", t.list)
	}
	var row Row
	if row.tools, err = toolsOf(o.Values["tools"]); err != nil {
		return row, fmt.Errorf("tools: %w", err)
	}
	row.system, _ = o.Values["system"].(string)
	for i, e := range list {
		if err := row.take(e, t, i); err != nil {
			return row, fmt.Errorf("%s[%d]: %w", t.list, i, err)
		}
	}
	if f == OpenAI {
		row.openAI()
	}
	return row, row.alternates()
}

// take reads a turn.
func (r *Row) take(v any, t tags, number int) error {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return errors.New("an object was expected")
	}
	by, ok := o.Values[t.by].(string)
	if !ok {
		return fmt.Errorf("%q: a text was expected", t.by)
	}
	text, err := textOf(o.Values[t.text])
	if err != nil {
		return fmt.Errorf("%q: %w", t.text, err)
	}
	if by == "system" && number == 0 {
		r.system = text
		return nil
	}
	party, ok := t.parties[by]
	if !ok {
		return ErrDropped
	}
	if calls, ok := o.Values["tool_calls"].([]any); ok && len(calls) > 0 && t.text == "content" && party == answerTurn {
		if text, err = callsText(calls); err != nil {
			return err
		}
		party = functionTurn
	}
	r.turns = append(r.turns, said{party, text})
	return nil
}

// textOf is a content: a text, or a list of parts, whose pictures become marks.
func textOf(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case []any:
		var b strings.Builder
		for _, e := range v {
			o, _ := e.(pytext.Ordered)
			if s, ok := o.Values["text"].(string); ok {
				b.WriteString(s)
			} else if kind, _ := o.Values["type"].(string); strings.HasPrefix(kind, "image") {
				b.WriteString(pictureMark)
			} else {
				return "", fmt.Errorf("a part of type %q is not known: text and image are", kind)
			}
		}
		return b.String(), nil
	}
	return "", errors.New("a text was expected")
}

// callsText is OpenAI's calls as the JSON that ShareGPT has.
func callsText(calls []any) (string, error) {
	var functions []any
	for _, c := range calls {
		o, _ := c.(pytext.Ordered)
		f, ok := o.Values["function"].(pytext.Ordered)
		if !ok {
			return "", errors.New(`"tool_calls": each needs a "function"`)
		}
		functions = append(functions, f)
	}
	return pytext.Dumps(functions), nil
}

// toolsOf is a column of tools: a list, one tool, or their JSON as a text; each wrapped as a function.
func toolsOf(v any) ([]any, error) {
	if text, ok := v.(string); ok {
		if text == "" {
			return nil, nil
		}
		var err error
		if v, err = pytext.OrderedJSON(text); err != nil {
			return nil, err
		}
	}
	list, ok := v.([]any)
	if o, one := v.(pytext.Ordered); one {
		list, ok = []any{o}, true
	}
	if v != nil && !ok {
		return nil, errors.New("a list of objects was expected")
	}
	for i, e := range list {
		o, ok := e.(pytext.Ordered)
		if !ok {
			return nil, fmt.Errorf("[%d]: an object was expected", i)
		}
		if o.Values["type"] != "function" {
			list[i] = pytext.Ordered{Keys: []string{"type", "function"}, Values: map[string]any{"type": "function", "function": o}}
		}
	}
	return list, nil
}

// openAI changes a row like the converter of OpenAI's format.
func (r *Row) openAI() {
	var joined []said
	for i, t := range r.turns {
		if t.by == replyTurn && i > 0 && r.turns[i-1].by == replyTurn {
			joined[len(joined)-1].text += "\n</tool_response>\n<tool_response>\n" + t.text
			continue
		}
		joined = append(joined, t)
	}
	r.turns = joined
	const off = "detailed thinking off"
	switch {
	case r.system == "" && r.tools == nil:
		r.system = off
	case r.system != "" && r.tools != nil:
		r.system += "\n"
	case r.system != "" && !strings.Contains(r.system, "detailed thinking on") && !strings.Contains(r.system, off):
		r.system += "\n" + off
	}
}

func (r *Row) alternates() error {
	for i, t := range r.turns {
		if asks := t.by == userTurn || t.by == replyTurn; asks != (i%2 == 0) {
			return ErrDropped
		}
	}
	if n := len(r.turns); n == 0 || n%2 != 0 {
		return ErrDropped
	}
	return nil
}

// Pictures and clips in rows of data sets: columns of files, parts of a message that name one, and marks in a text.

// words are the names of a medium in rows: the column, or one name alone, the types of a part, and the mark in a text.
type words struct{ column, one, url, mark, what string }

var shown = map[vlm.PartKind]words{
	vlm.PicturePart: {"images", "image", "image_url", pictureMark, "picture"},
	vlm.ClipPart:    {"videos", "video", "video_url", clipMark, "clip"},
}

// namesOf is a column of pictures or clips.
func namesOf(o pytext.Ordered, w words) (names []string, err error) {
	v := o.Values[w.column]
	if v == nil {
		v = o.Values[w.one]
	}
	if one, ok := v.(string); ok {
		return []string{one}, nil
	}
	list, ok := v.([]any)
	if v != nil && !ok {
		return nil, fmt.Errorf("%q: a list of files' names was expected", w.column)
	}
	for _, e := range list {
		name, ok := e.(string)
		if p, is := e.(pytext.Ordered); is {
			name, ok = p.Values["path"].(string)
		}
		if !ok {
			return nil, fmt.Errorf("%q: a list of files' names was expected", w.column)
		}
		names = append(names, name)
	}
	return names, nil
}

// parts returns a text with marks of the row's pictures and clips.
func parts(text string, listed map[vlm.PartKind][]string) (all []vlm.Part) {
	for {
		at, first, mark := len(text), vlm.TextPart, ""
		for kind, w := range shown {
			if i := strings.Index(text, w.mark); len(listed[kind]) > 0 && i >= 0 && i < at {
				at, first, mark = i, kind, w.mark
			}
		}
		all = append(all, vlm.Text(text[:at])...)
		if mark == "" {
			return all
		}
		all = append(all, vlm.Part{Kind: first})
		text = text[at+len(mark):]
	}
}

// partOf is a part of a list; the file that it names is added to named.
func partOf(v any, listed, named map[vlm.PartKind][]string) (all []vlm.Part, err error) {
	o, ok := v.(pytext.Ordered)
	if !ok {
		return nil, errors.New("an object was expected")
	}
	if text, ok := o.Values["text"].(string); ok {
		return parts(text, listed), nil
	}
	written, _ := o.Values["type"].(string)
	for kind, w := range shown {
		if written != w.one && written != w.url {
			continue
		}
		name, err := w.named(o, len(listed[kind]) > 0)
		if name != "" {
			named[kind] = append(named[kind], name)
		}
		return []vlm.Part{{Kind: kind}}, err
	}
	return nil, fmt.Errorf("a part of type %q: text, image and video are known", written)
}

// named is the file that a part names; "" where the row lists it.
func (w words) named(part pytext.Ordered, listed bool) (string, error) {
	where := part.Values[w.one]
	if where == nil {
		where = part.Values[w.url]
	}
	if url, ok := where.(pytext.Ordered); ok {
		where = url.Values["url"]
	}
	name, _ := where.(string)
	switch name = strings.TrimPrefix(name, "file://"); {
	case name == "" && !listed:
		return "", fmt.Errorf(`a %s that names no file: write {"type": %q, %q: "FILE"}, or list the files in %q`, w.what, w.one, w.one, w.column)
	case strings.Contains(name, "://") || strings.HasPrefix(name, "data:"):
		return "", fmt.Errorf("%s %.60q: files beside the data set are read, and nothing is fetched", w.what, name)
	}
	return name, nil
}
