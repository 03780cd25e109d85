package prompts

import (
	"encoding/json"
	"fmt"
	"image"
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/scenes/cards"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// The embedded lists: different captions of scenes, drawn once and for all. HeldOut splits them.
var embedded = map[string]func() []Prompt{
	"embed:scenes":                 func() []Prompt { return captions(240, false) },
	"embed:scenes-heldout":         func() []Prompt { return captions(48, true) },
	"embed:zoom":                   func() []Prompt { return questions(0, 480) },
	"embed:zoom-solved":            func() []Prompt { return solved(0, 480) },
	"embed:edits":                  func() []Prompt { return changed(0, 480, "make", "remove", "move") },
	"embed:edits-heldout":          func() []Prompt { return changed(heldOutEdits, 96, "make", "remove", "move") },
	"embed:edits-in-place":         func() []Prompt { return changed(0, 480, "make", "remove") },
	"embed:edits-in-place-heldout": func() []Prompt { return changed(heldOutEdits, 96, "make", "remove") },
	"embed:zoom-heldout":           func() []Prompt { return questions(10000, 160) },
	"embed:moving":                 func() []Prompt { return moves(false) },
	"embed:moving-heldout":         func() []Prompt { return moves(true) },
	"embed:animate":                func() []Prompt { return begun.prompts(3, false) },
	"embed:animals":                animals,
	"embed:animate-heldout":        func() []Prompt { return begun.prompts(4, true) },
	"embed:animate64":              func() []Prompt { return begun64.prompts(1, false) },
	"embed:animate64-heldout":      func() []Prompt { return begun64.prompts(1, true) },
}

// mix has the words that are words: three letters that mean nothing tell little.
func mix() scenes.Mix {
	m := scenes.Everything
	m.Words = scenes.Words
	return m
}

func captions(n int, heldOut bool) []Prompt {
	draw := rng.New(77).With("captions").Draw()
	var list []Prompt
	seen := map[string]bool{}
	for len(list) < n {
		s := scenes.Random(draw, mix())
		if seen[s.Prompt] || scenes.HeldOut(s.Prompt) != heldOut {
			continue
		}
		seen[s.Prompt] = true
		list = append(list, Prompt{Text: s.Prompt})
	}
	return list
}

// moves are captions of moving scenes: all that are held out, or all others.
func moves(heldOut bool) (list []Prompt) {
	for _, s := range moving.All() {
		if moving.HeldOut(s.Prompt()) == heldOut {
			list = append(list, Prompt{Text: s.Prompt()})
		}
	}
	return list
}

// Edits of drawn scenes: embed:edits and embed:edits-heldout, whose captions no training saw. image is the scene
// before, meta.scene its caption, and meta.changes the boxes in which a picture may change. embed:edits-in-place, with
// its held-out list, has those of them that move nothing.

// heldOutEdits is the number of the first that is held out.
const heldOutEdits = 10000

func editOf(n int) scenes.Edit {
	for try := 0; ; try++ {
		e := scenes.RandomEdit(rng.New(77).With("edits").Sample(n).Attempt(try).Draw())
		if scenes.HeldOut(e.Before.Prompt) == (n >= heldOutEdits) {
			return e
		}
	}
}

// sceneOf is the picture before an edit.
func sceneOf(n int) *vision.Image {
	jitter := rng.New(77).With("jitter of edits").Sample(n).Draw()
	return &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: editOf(n).Before.Draw(scenes.Jitter(jitter))}
}

// changed are those of n embedded edits, from number first on, whose texts begin with some verbs.
func changed(first, n int, verbs ...string) (list []Prompt) {
	for i := first; i < first+n; i++ {
		e, meta := editOf(i), map[string]json.RawMessage{}
		if !e.Begins(verbs) {
			continue
		}
		for key, v := range map[string]any{"scene": e.Before.Prompt, "changes": e.Touched} {
			meta[key], _ = json.Marshal(v) // texts and numbers
		}
		list = append(list, Prompt{Text: e.Text, Meta: MetaOf(meta), Image: Images{drawn + strconv.Itoa(i)}})
	}
	return list
}

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
