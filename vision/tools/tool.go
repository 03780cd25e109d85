package tools

import (
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// A Tool plans a call: it returns the operations, or the reason of a refusal.
type Tool struct {
	Name string
	Plan func(s *State, args any) (Plan, error)
	// About and Parameters describe it to a model where the protocol has no published text: its purpose, and the JSON
	// schema of its arguments.
	About, Parameters string
}

// A Builtin is one of our own tools, as a value in its file: a card, its arguments, its plan of a call, and its
// operations on a picture.
type Builtin struct {
	Name     string
	Card     string             // the description that a model reads; "": no model is offered it
	Schema   func(Frame) string // JSON schema of its arguments
	Examples []string           // arguments that are right, which tests call it with and break
	Ops      map[string]drawing // its operations by their kinds
	Plan     func(f Frame, s *State, a *arguments) (Plan, error)
}

// A drawing makes a new picture of one.
type drawing func(m *vision.Image, o Op) (*vision.Image, error)

// Builtins are our own tools, in the order in which a model reads of them.
func Builtins() []Builtin {
	return []Builtin{zoom, rotate, flip, drawBox, drawLine, drawPoint, grid, measure, readText, frame}
}

// Tool is the tool for a model that counts in a frame.
func (b Builtin) Tool(f Frame) Tool {
	t := Tool{Name: b.Name, About: b.Card, Plan: func(s *State, args any) (Plan, error) { return b.Plan(f, s, argumentsOf(args)) }}
	if b.Schema != nil {
		t.Parameters = b.Schema(f)
	}
	return t
}

// Arguments of our own tools: strict, each mistake by its kind.

type arguments struct {
	pytext.Ordered
	err error // the first mistake
}

func argumentsOf(v any) *arguments {
	d, ok := v.(pytext.Ordered)
	if !ok {
		return &arguments{pytext.Ordered{}, refuse(WrongType, "", "arguments must be an object")}
	}
	return &arguments{Ordered: d}
}

func (a *arguments) fail(r *Refusal) {
	if a.err == nil {
		a.err = r
	}
}

// need is an argument that must be there.
func (a *arguments) need(key string) any {
	v, ok := a.Values[key]
	if !ok {
		r := refuse(MissingKey, "", "the argument %q is missing", key)
		r.Key = key
		a.fail(r)
	}
	return v
}

// real is a finite number.
func (a *arguments) real(key string) float64 {
	return a.finite(key, a.need(key))
}

const farthest = 1e6 // no coordinate, angle or count is larger

func (a *arguments) finite(key string, v any) float64 {
	n, ok := v.(pytext.Number)
	switch {
	case !ok:
		a.fail(refuse(WrongType, "", "the argument %q must be a number", key))
	case !(n.Value >= -farthest && n.Value <= farthest):
		a.fail(refuse(BadValue, "", "the argument %q is out of range", key))
		return 0
	}
	return n.Value
}

// box are four numbers; corners in any order.
func (a *arguments) box(key string) Box {
	list, ok := a.need(key).([]any)
	if !ok || len(list) != 4 {
		a.fail(refuse(BoxArity, "", "the argument %q must be a list of four numbers", key))
		return Box{}
	}
	var b Box
	for i, v := range list {
		b[i] = a.finite(key, v)
	}
	return b
}

// text is a text, "" where it is not there.
func (a *arguments) text(key string) string {
	v, ok := a.Values[key]
	if !ok {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		a.fail(refuse(WrongType, "", "the argument %q must be a text", key))
	}
	return s
}

// whole is a whole number from low to high, standing where it is not there.
func (a *arguments) whole(key string, low, high, standing int) int {
	v, ok := a.Values[key]
	if !ok {
		return standing
	}
	x := a.finite(key, v)
	if x != float64(int(x)) || int(x) < low || int(x) > high {
		a.fail(refuse(BadValue, "", "the argument %q must be a whole number from %d to %d", key, low, high))
		return low
	}
	return int(x)
}

// picture is the album's picture that a call names, from 1 on; the first where it names none.
func (a *arguments) picture(s *State) (int, Picture) {
	n := len(s.Album.Pictures)
	if n == 0 {
		a.fail(refuse(NoPicture, "", "there is no picture yet"))
		return 0, Picture{}
	}
	v, ok := a.Values["picture"]
	if !ok {
		return 0, s.Album.Pictures[0]
	}
	x := a.finite("picture", v)
	if x != float64(int(x)) || x < 1 || int(x) > n {
		a.fail(refuse(NoPicture, "", "there is no such picture: they are numbered 1 to %d", n))
		return 0, s.Album.Pictures[0]
	}
	return int(x) - 1, s.Album.Pictures[int(x)-1]
}

// shownPicture is the argument that names a picture.
const shownPicture = `"picture": {"type": "integer", "description": "number of the picture, from 1 on; the first unless it is given"}`

// object is the schema of arguments; the last of them must be given.
func object(optional, required string) string {
	name, _, _ := strings.Cut(required, ":")
	if optional != "" {
		optional += ", "
	}
	return `{"type": "object", "properties": {` + optional + required + `}, "required": [` + name + `]}`
}

// boxIn is the argument of four corners in a frame.
func boxIn(f Frame) string {
	return `"bbox_2d": {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4, "description": "[x1, y1, x2, y2], ` + f.words() + `"}`
}

// words are the unit of a frame.
func (f Frame) words() string {
	return map[Frame]string{
		ShownPixels: "in pixels of the picture as it is shown", FullPixels: "in pixels of the picture at full size",
		Unit: "in shares of the picture's width and height, 0 to 1", Thousandths: "in thousandths of the picture's width and height, 0 to 1000",
	}[f]
}

// An Answerer is tools that live outside of the program, as an episode calls them: a search, an environment.
type Answerer interface {
	// Answer returns a tool's answer to a call. An error ends learning: nothing is learned from the episode.
	Answer(name string, arguments pytext.Ordered) (Answer, error)
}

// An Answer is a text and pictures, or why the tool refuses the call, for the model to read.
type Answer struct {
	Text     string
	Pictures []*vision.Image
	Refused  string
}

// OutsideTool is a tool of another program, by its name: it takes any object of arguments.
func OutsideTool(name string) Tool {
	return Tool{Name: name, Plan: func(s *State, args any) (Plan, error) {
		o, ok := args.(pytext.Ordered)
		if !ok {
			return Plan{}, refuse(WrongType, "", "arguments must be an object")
		}
		if s.Outside == nil {
			return Plan{}, refuse(Failed, "", "the tool cannot be reached")
		}
		a, err := s.Outside.Answer(name, o)
		switch {
		case err != nil:
			return Plan{}, refuse(Failed, "", "the tool cannot be reached")
		case a.Refused != "":
			return Plan{}, refuse(BadValue, "", "%s", a.Refused)
		}
		return Plan{Ready: a.Pictures, Text: a.Text}, nil
	}}
}

// With is the protocol with further tools, each in the place of one of its name.
func (p *Protocol) With(more ...Tool) *Protocol {
	out := *p
	out.Tools = nil
	for _, t := range p.Tools {
		if !hasTool(more, t.Name) {
			out.Tools = append(out.Tools, t)
		}
	}
	out.Tools = append(out.Tools, more...)
	return &out
}

func hasTool(all []Tool, name string) bool {
	for _, t := range all {
		if t.Name == name {
			return true
		}
	}
	return false
}
