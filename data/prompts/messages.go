package prompts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"github.com/darkroom-rl/darkroom/data/sft"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Rows whose prompt is a list of messages, as verl's and TRL's are, in a .jsonl or in a Parquet file:
//
//	prompt         the messages before the assistant's turn, "<image>" for the next picture; a system text among them
//	images, tools  of the row
//	reward_model.ground_truth, solution, ground_truth, extra_info.answer   become meta.answer where the row has none
//	data_source    becomes meta.domain, too, where the row has none, for rules by domain
//
// Every other member is a key of meta, an object's with dots. The messages themselves are kept for the model's
// template, so that a prompt of several turns keeps its turns.

// messagesColumn holds them, and meta has the row's part that a template reads under messagesKey.
const (
	messagesColumn = "prompt"
	messagesKey    = "messages"
)

// Messages is the part of a prompt's row that a template reads (sft.ReadAsked); false where the prompt is a text.
func (p Prompt) Messages() (row string, ok bool) {
	raw, ok := p.Meta.Get(messagesKey)
	if !ok || len(raw) == 0 || raw[0] != '{' {
		return "", false
	}
	return string(raw), true
}

// isMessages reports whether a line's prompt is a list.
func isMessages(line []byte) bool {
	var row struct {
		Prompt json.RawMessage `json:"prompt"`
	}
	return json.Unmarshal(line, &row) == nil && bytes.HasPrefix(bytes.TrimSpace(row.Prompt), []byte("["))
}

// answerKeys are the keys of a right answer; the first that exists counts.
var answerKeys = []string{"reward_model.ground_truth", "solution", "ground_truth", "extra_info.answer"}

// messagesPrompt is a row as a prompt.
func messagesPrompt(row string) (p Prompt, err error) {
	v, err := pytext.OrderedJSON(row)
	if err != nil {
		return p, err
	}
	o, ok := v.(pytext.Ordered)
	if !ok {
		return p, fmt.Errorf("an object was expected")
	}
	asked := pytext.Ordered{Values: pytext.Object{}}
	meta := map[string]json.RawMessage{}
	for _, key := range o.Keys {
		switch key {
		case messagesColumn, "images", "image", "tools", "system":
			asked.Keys, asked.Values[key] = append(asked.Keys, key), o.Values[key]
		default:
			flatten(meta, key, o.Values[key])
		}
	}
	text := pytext.Dumps(asked)
	c, err := sft.ReadPrompt(text)
	if err != nil {
		return p, err
	}
	p.Text, meta[messagesKey] = c.Last(), json.RawMessage(text)
	if len(c.Pictures) > 0 {
		if meta["picture"], err = json.Marshal(c.Pictures); err != nil {
			return p, err
		}
	}
	first(meta, "answer", answerKeys...)
	first(meta, "domain", "data_source")
	p.Meta = MetaOf(meta)
	return p, nil
}

// first gives a key the value of the first of some others, where it has none of its own.
func first(m map[string]json.RawMessage, key string, others ...string) {
	for _, other := range others {
		if raw, ok := m[other]; ok && m[key] == nil {
			m[key] = raw
		}
	}
}

// flatten puts a member into meta: an object's members with dots, and nothing for values that JSON does not have.
func flatten(m map[string]json.RawMessage, key string, v any) {
	switch v := v.(type) {
	case nil:
		return
	case pytext.Ordered:
		for _, inner := range v.Keys {
			flatten(m, key+"."+inner, v.Values[inner])
		}
		return
	case pytext.Number:
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			return
		}
	}
	m[key] = json.RawMessage(pytext.Dumps(v))
}

// messagesPrompts are the rows of a Parquet file whose prompt is a list of messages; false of another.
func messagesPrompts(path, shown string) (list []Prompt, ok bool, err error) {
	f, err := openTableFile(path)
	if err != nil {
		return nil, false, nil // said where the file is read as any other
	}
	defer f.file.Close()
	f.shown = filepath.ToSlash(shown)
	if !f.hasMessages() {
		return nil, false, nil
	}
	t := &Table{files: []*tableFile{f}}
	err = unbroken(func() error {
		return f.each(false, func(at Place, row pytext.Ordered) error {
			p, err := messagesPrompt(t.LessonRow(at, row))
			list = append(list, p)
			return err
		})
	})
	return list, true, err
}

// hasMessages reports whether the column of prompts is a list of objects with a role.
func (t *tableFile) hasMessages() bool {
	for _, leaf := range t.leaves() {
		path := leaf.Path()
		if path[0] == messagesColumn && leaf.MaxRepetitionLevel() > 0 && path[len(path)-1] == "role" && leaf.Type().Kind() == parquet.ByteArray {
			return true
		}
	}
	return false
}
