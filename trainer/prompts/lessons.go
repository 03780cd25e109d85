package prompts

import "encoding/json"

// Lessons are conversations that are learned from in place of rollouts (trainer/conversations). They
// stand behind the prompts in one list, so that a key names either.

// lessonRow and lessonFile are what a lesson's meta holds: its row, and the file that it stands in.
const (
	lessonRow  = "lesson"
	lessonFile = "lesson_file"
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

// Lesson is a lesson's row and its file; false of a prompt.
func (p Prompt) Lesson() (row, file string, ok bool) {
	raw, ok := p.Meta[lessonRow]
	if !ok || json.Unmarshal(p.Meta[lessonFile], &file) != nil {
		return "", "", false
	}
	return string(raw), file, true
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
