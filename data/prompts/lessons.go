package prompts

import (
	"encoding/json"
	"strings"
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
