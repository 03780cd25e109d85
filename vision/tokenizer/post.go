package tokenizer

import (
	"encoding/json"
	"fmt"
)

// post is the special tokens around a text.
type post struct{ before, after []int32 }

// mostFrame is how many tokens a file puts around a text.
const mostFrame = 256

func (p post) extra() int { return len(p.before) + len(p.after) }

func (p post) frame(ids []int32) []int32 {
	out := make([]int32, 0, len(ids)+p.extra())
	return append(append(append(out, p.before...), ids...), p.after...)
}

type postFile struct {
	Type       string            `json:"type"`
	Processors []json.RawMessage `json:"processors"`
	Sep        *named            `json:"sep"`
	Cls        *named            `json:"cls"`
	Single     []struct {
		Sequence     *struct{ ID string }
		SpecialToken *struct{ ID string }
	} `json:"single"`
	Tokens map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
}

// named is ["token", id].
type named struct{ id int32 }

func (n *named) UnmarshalJSON(b []byte) error {
	var text string
	list := []any{&text, &n.id}
	return json.Unmarshal(b, &list)
}

func readPost(raw json.RawMessage) (p post, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return p, nil
	}
	var f postFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return p, fmt.Errorf("post_processor: %w", err)
	}
	switch f.Type {
	case "ByteLevel": // only moves offsets
	case "Sequence":
		for _, r := range f.Processors {
			one, err := readPost(r)
			if err != nil {
				return p, err
			}
			p.before, p.after = append(one.before, p.before...), append(p.after, one.after...)
		}
	case "RobertaProcessing", "BertProcessing":
		if f.Sep == nil || f.Cls == nil {
			return p, fmt.Errorf(`post_processor %s needs "sep" and "cls"`, f.Type)
		}
		p = post{[]int32{f.Cls.id}, []int32{f.Sep.id}}
	case "TemplateProcessing":
		seen := false
		for _, s := range f.Single {
			switch {
			case s.Sequence != nil:
				seen = true
			case p.extra() > mostFrame: // reported below
			case s.SpecialToken != nil && seen:
				p.after = append(p.after, f.Tokens[s.SpecialToken.ID].IDs...)
			case s.SpecialToken != nil:
				p.before = append(p.before, f.Tokens[s.SpecialToken.ID].IDs...)
			}
		}
	default:
		return p, fmt.Errorf("post_processor of type %.40q is not known", f.Type)
	}
	if p.extra() > mostFrame {
		return p, fmt.Errorf("post_processor: more than %d tokens around a text", mostFrame)
	}
	return p, nil
}
