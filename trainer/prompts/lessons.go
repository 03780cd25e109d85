package prompts

import (
	"encoding/json"
)

// Lessons are conversations that are learned from in place of rollouts (trainer/conversations). They
// stand behind the prompts in one list, so that a key names either.

// What a lesson's meta holds: the file that it stands in, and its row as it was written, or, of a table, the row's
// number and its sum.
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
	p := Prompt{Text: text, Meta: Meta{lessonRow: json.RawMessage(row), lessonFile: of}}
	if len(pictures) > 0 {
		p.Meta["picture"], err = json.Marshal(pictures)
	}
	return p, err
}

// NewLessonAt is a lesson that stays in its table until it is learned from: the row's number, from 0, and the sum of
// what it says.
func NewLessonAt(file string, row int, sum, text string) (p Prompt, err error) {
	p = Prompt{Text: text, Meta: Meta{}}
	for key, v := range map[string]any{lessonFile: file, lessonAt: row, lessonSum: sum} {
		if p.Meta[key], err = json.Marshal(v); err != nil {
			return p, err
		}
	}
	return p, nil
}

// Lesson is a lesson's file, and its row, "" where that stands in a table; false of a prompt.
func (p Prompt) Lesson() (row, file string, ok bool) {
	if json.Unmarshal(p.Meta[lessonFile], &file) != nil {
		return "", "", false
	}
	return string(p.Meta[lessonRow]), file, true
}

// LessonAt is where a lesson stands in its table, and the sum of what it said there.
func (p Prompt) LessonAt() (row int, sum string, ok bool) {
	ok = json.Unmarshal(p.Meta[lessonAt], &row) == nil && json.Unmarshal(p.Meta[lessonSum], &sum) == nil
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
