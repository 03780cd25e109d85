package sft

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// Card: rows with the better of two answers, or with a label of one.
//
//	TRL            "prompt", "chosen", "rejected" as lists of messages; without "prompt" it is the common beginning
//	               "prompt", "completion", "label": true or false (KTO)
//	LLaMA-Factory  "conversations" with "chosen" and "rejected", a turn each; or with "kto_tag"
//	MMPR           "question" or "prompt", "chosen", "rejected" as texts, and "image"
//
// A text is one message of its party. Pictures and clips that are listed and not marked go before the first text of
// the user.
// A judged conversation trains on the answer alone, the part behind the prompt.

// A Judged is a conversation whose end was judged.
type Judged struct {
	Conversation
	PromptMessages int  // messages of the prompt
	Good           bool // or the better one
}

// ReadPreference reads a row: two answers, the better before the worse, or one.
func ReadPreference(text string) (all []Judged, err error) {
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		return nil, err
	}
	o, ok := v.(pytext.Ordered)
	if !ok {
		return nil, errors.New("an object was expected")
	}
	prompt, err := promptOf(o)
	if err != nil {
		return nil, err
	}
	answers, err := answersOf(o)
	if err != nil {
		return nil, err
	}
	if prompt == nil && len(answers) == 2 {
		prompt, answers = begins(answers)
	}
	if len(prompt) == 0 {
		return nil, errors.New(`no "prompt", "question" or "conversations", nor messages that "chosen" and "rejected" begin with`)
	}
	if prompt, err = withMarks(o, prompt); err != nil {
		return nil, err
	}
	for i, answer := range answers {
		j := Judged{Good: i == 0}
		if len(answers) == 1 {
			j.Good, _ = labelOf(o)
		}
		if j.Conversation, err = conversationOf(o, slices.Concat(prompt, answer), "prompt and answer"); err != nil {
			return nil, err
		}
		j.PromptMessages = len(j.Messages) - len(answer)
		if !slices.ContainsFunc(j.Messages[j.PromptMessages:], func(m vlm.Message) bool { return m.Role == "assistant" }) {
			return nil, errors.New("in an answer the assistant says nothing")
		}
		if err := j.checkMarks(); err != nil {
			return nil, err
		}
		all = append(all, j)
	}
	return all, nil
}

// promptOf returns the messages before the answers; nil without them.
func promptOf(o pytext.Ordered) ([]any, error) {
	for _, key := range []string{"prompt", "question", "conversations", "messages"} {
		switch v := o.Values[key].(type) {
		case nil:
		case string:
			return []any{turnOf("user", v)}, nil
		case []any:
			if key == "conversations" && o.Values["kto_tag"] != nil && len(v) > 0 {
				return v[:len(v)-1], nil
			}
			return v, nil
		default:
			return nil, fmt.Errorf("%q: a text or a list of messages was expected", key)
		}
	}
	return nil, nil
}

// answersOf are the two answers of a pair, or the one of a row with a label.
func answersOf(o pytext.Ordered) (all [][]any, err error) {
	if _, ok := labelOf(o); ok {
		one := o.Values["completion"]
		if list, is := o.Values["conversations"].([]any); is && len(list) > 0 {
			one = list[len(list)-1]
		}
		a, err := answerOf("completion", one)
		return [][]any{a}, err
	}
	for _, key := range []string{"chosen", "rejected"} {
		a, err := answerOf(key, o.Values[key])
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// answerOf is an answer as messages.
func answerOf(key string, v any) ([]any, error) {
	switch v := v.(type) {
	case string:
		return []any{turnOf("assistant", v)}, nil
	case pytext.Ordered:
		return []any{v}, nil
	case []any:
		if len(v) > 0 {
			return v, nil
		}
	}
	return nil, fmt.Errorf(`%q: an answer was expected, as a text or as messages; a row has "chosen" and "rejected", or "completion" and "label"`, key)
}

// labelOf is whether the row's one answer is good; false, false of a pair.
func labelOf(o pytext.Ordered) (good, ok bool) {
	for _, key := range []string{"label", "kto_tag"} {
		if good, ok = o.Values[key].(bool); ok {
			return good, true
		}
	}
	return false, false
}

// begins splits two answers into their common beginning and their rests.
func begins(answers [][]any) (prompt []any, rests [][]any) {
	n, a, b := 0, answers[0], answers[1]
	for n < min(len(a), len(b))-1 && reflect.DeepEqual(a[n], b[n]) {
		n++
	}
	return a[:n], [][]any{a[n:], b[n:]}
}

// withMarks is a prompt with a mark for each picture and clip that the row lists, where it marks none of the kind,
// before the user's first text: clips first, as in questions.
func withMarks(o pytext.Ordered, prompt []any) ([]any, error) {
	marks := ""
	for _, kind := range []vlm.PartKind{vlm.ClipPart, vlm.PicturePart} {
		listed, err := namesOf(o, shown[kind])
		if err != nil {
			return nil, err
		}
		if len(listed) == 0 {
			continue
		}
		c, err := conversationOf(o, prompt, "prompt")
		if err != nil {
			return nil, err
		}
		if !c.shows(kind) { // else the answers may have the others
			marks += strings.Repeat(shown[kind].mark, len(listed))
		}
	}
	for i, e := range prompt {
		m, ok := e.(pytext.Ordered)
		text, is := m.Values["content"].(string)
		if marks == "" || !ok || !is || m.Values["role"] != "user" {
			continue
		}
		prompt = slices.Clone(prompt)
		prompt[i] = turnOf("user", marks+text)
		break
	}
	return prompt, nil
}

// shows reports whether a message has such a part.
func (c Conversation) shows(kind vlm.PartKind) bool {
	return slices.ContainsFunc(c.Messages, func(m vlm.Message) bool {
		return slices.ContainsFunc(m.Content, func(p vlm.Part) bool { return p.Kind == kind })
	})
}

// turnOf is a message of a text.
func turnOf(role, text string) pytext.Ordered {
	return pytext.Ordered{Keys: []string{"role", "content"}, Values: pytext.Object{"role": role, "content": text}}
}
