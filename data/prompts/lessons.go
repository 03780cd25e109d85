package prompts

import (
	"encoding/json"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Lessons are conversations that are learned from in place of rollouts (trainer/conversations). They follow the prompts
// in one list, so that a key names either.

// Keys of a lesson's meta: its file, and its row as it was written, or, of a table, the row's number and its sum.
const (
	lessonFile = "lesson_file"
	lessonRow  = "lesson"
	lessonAt   = "lesson_row"
	lessonSum  = "lesson_sha256"
)

// NewLesson is a lesson of a file, with its row as it was written, the names of its pictures, and a
// text for people.
func NewLesson(file, row, text string, pictures []string) (Prompt, error) {
	of, err := json.Marshal(file)
	if err != nil {
		return Prompt{}, err
	}
	meta := map[string]json.RawMessage{lessonRow: json.RawMessage(row), lessonFile: of}
	if len(pictures) > 0 {
		meta["picture"], err = json.Marshal(pictures)
	}
	return Prompt{Text: text, Meta: MetaOf(meta)}, err
}

// NewLessonAt returns a lesson that stays in its table until it is trained on: the row's number, from 0, and the sum of
// its content.
func NewLessonAt(file string, row int, sum, text string) (p Prompt, err error) {
	meta := map[string]json.RawMessage{}
	for key, v := range map[string]any{lessonFile: file, lessonAt: row, lessonSum: sum} {
		if meta[key], err = json.Marshal(v); err != nil {
			return p, err
		}
	}
	return Prompt{Text: text, Meta: MetaOf(meta)}, nil
}

// Lesson is a lesson's file, and its row, "" where that stands in a table; false of a prompt.
func (p Prompt) Lesson() (row, file string, ok bool) {
	if !strings.HasPrefix(string(p.Meta), `{"`+lessonRow) { // as MetaOf writes one
		return "", "", false
	}
	all := p.Meta.Map()
	if json.Unmarshal(all[lessonFile], &file) != nil {
		return "", "", false
	}
	return string(all[lessonRow]), file, true
}

// LessonAt returns a lesson's row in its table, and the sum of its content.
func (p Prompt) LessonAt() (row int, sum string, ok bool) {
	all := p.Meta.Map()
	ok = json.Unmarshal(all[lessonAt], &row) == nil && json.Unmarshal(all[lessonSum], &sum) == nil
	return row, sum, ok
}

// LessonsOf are the places of a file's lessons in a list; of "" those of prompts.
func LessonsOf(list []Prompt, file string) (places []int) {
	for i, p := range list {
		if _, of, _ := p.Lesson(); of == file {
			places = append(places, i)
		}
	}
	return places
}

// LessonRow returns a table's row as a line of a .jsonl would have it: without null, with a picture's name in its
// place, and with a list where a list was stored as JSON.
func (t *Table) LessonRow(at Place, row pytext.Ordered) string {
	out := pytext.Ordered{Values: pytext.Object{}}
	for _, key := range row.Keys {
		v := row.Values[key]
		if v = t.named(at, key, v); v == nil {
			continue
		}
		if text, ok := v.(string); ok && listed[key] && strings.HasPrefix(strings.TrimSpace(text), "[") {
			if list, err := pytext.OrderedJSON(text); err == nil {
				v = list
			}
		}
		out.Keys, out.Values[key] = append(out.Keys, key), v
	}
	return pytext.Dumps(out)
}

// listed are columns that some data sets store as JSON.
var listed = map[string]bool{"messages": true, "conversations": true, "prompt": true, "completion": true}

// named returns a column without null, and with names in the place of pictures.
func (t *Table) named(at Place, key string, v any) any {
	if !t.pictured(key) {
		return present(v)
	}
	p := place{file: at.File, row: at.Row, column: key}
	list, several := v.([]any)
	switch {
	case v == nil:
		return nil
	case !several:
		return p.String()
	}
	names := []any{}
	for i, e := range list {
		if p.one = i + 1; e != nil {
			names = append(names, p.String())
		}
	}
	return names
}

// pictured reports whether a column holds pictures.
func (t *Table) pictured(key string) bool {
	for _, f := range t.files {
		all := f.leaves()
		for _, leaf := range all {
			if leaf.Path()[0] == key && isPicture(leaf, all) {
				return true
			}
		}
	}
	return false
}

// present is a value without members that are null; nil where it is, or where it has bytes, which JSON has not.
func present(v any) any {
	switch v := v.(type) {
	case []byte:
		return nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = present(e)
		}
		return out
	case pytext.Ordered:
		out := pytext.Ordered{Values: pytext.Object{}}
		for _, key := range v.Keys {
			if e := present(v.Values[key]); e != nil {
				out.Keys, out.Values[key] = append(out.Keys, key), e
			}
		}
		return out
	}
	return v
}
