package prompts

import (
	"encoding/json"
	"fmt"
	"image"
	"strconv"

	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
)

// Embedded conversations to learn from: rows in OpenAI's form, drawn once and for all. In those of
// embed:zoom-lessons every card of a table is asked for in turn, and the assistant looks at it before it
// answers, by the calls and replies of protocol darkroom. Tables are others than those of embed:zoom and
// embed:zoom-heldout.
var drawnLessons = map[string]func() []string{
	"embed:zoom-lessons": func() []string { return zoomLessons(firstLesson, 200) },
}

const (
	firstLesson = 20000 // table
	shownSide   = 64    // pixels a side that embed:tiny-vlm shows a table with
	shownGrid   = 2     // edges of boxes lie at every second of them, further out
)

// DrawnLessons are the rows of an embedded list; false where no list has the name.
func DrawnLessons(name string) (rows []string, ok bool) {
	if list, ok := drawnLessons[name]; ok {
		return list(), true
	}
	return nil, false
}

// zoomLessons are n conversations, from a table on.
func zoomLessons(first, n int) []string {
	var rows []string
	for i := first; i < first+n; i++ {
		raw, _ := json.Marshal(map[string]any{"messages": zoomLesson(i)}) // texts and names
		rows = append(rows, string(raw))
	}
	return rows
}

// A message is one of OpenAI's, and a part of its content.
type (
	message struct {
		Role    string `json:"role"`
		Content []part `json:"content"`
	}
	part struct {
		Type  string `json:"type"`
		Text  string `json:"text,omitempty"`
		Image string `json:"image,omitempty"`
	}
)

// zoomLesson is the conversation about a table.
func zoomLesson(number int) (all []message) {
	t, name := tableOf(number), table+strconv.Itoa(number)
	say := func(role string, content ...part) { all = append(all, message{role, content}) }
	text := func(format string, args ...any) part { return part{Type: "text", Text: fmt.Sprintf(format, args...)} }
	for i, c := range t.Cards {
		question := []part{text("%s", t.Question(i))}
		if i == 0 {
			question = append([]part{{Type: "image", Image: name}}, question...)
		}
		b := shownBox(c.Box)
		say("user", question...)
		say("assistant", text("%s", zoomCall(b)))
		full := image.Rectangle{b.Min.Mul(cards.Side / shownSide), b.Max.Mul(cards.Side / shownSide)}
		say("user", text("<tool_response>\nPicture %d: ", i+2), part{Type: "image", Image: fmt.Sprintf("%s/%d,%d,%d,%d", name, full.Min.X, full.Min.Y, full.Max.X, full.Max.Y)},
			text(" (%d x %d pixels of picture 1)\n</tool_response>", full.Dx(), full.Dy()))
		say("assistant", text("<answer>%d</answer>", c.Digit))
	}
	return all
}

// zoomCall is the call that looks at a box.
func zoomCall(b image.Rectangle) string {
	return fmt.Sprintf(`<tool_call>{"name": "zoom", "arguments": {"bbox_2d": [%d, %d, %d, %d]}}</tool_call>`, b.Min.X, b.Min.Y, b.Max.X, b.Max.Y)
}

// shownBox is a card's box in pixels of the table as it is shown.
func shownBox(b image.Rectangle) image.Rectangle {
	const cell = shownGrid * cards.Side / shownSide
	down, up := func(x int) int { return x / cell * shownGrid }, func(x int) int { return (x + cell - 1) / cell * shownGrid }
	return image.Rect(down(b.Min.X), down(b.Min.Y), up(b.Max.X), up(b.Max.Y))
}
