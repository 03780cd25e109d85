package tools

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: our own protocol. Calls are JSON in <tool_call> as Hermes and Qwen write them, any tool,
// any earlier picture, in a frame that is declared. Every call is made and answered by itself: a
// call that cannot be read or done gets a typed reply, {"error": kind, "message": ...}, so that
// a model can learn from it; NaN and the like are refused. A non-empty <answer> ends the episode
// and calls beside it are not made; neither answer nor call ends it, too.

// Darkroom is the protocol with every tool, in pixels of pictures as shown.
func Darkroom() *Protocol { return DarkroomIn(ShownPixels) }

// DarkroomIn is the same in another frame.
func DarkroomIn(f Frame) *Protocol {
	return &Protocol{
		Name: "darkroom", Read: readDarkroom, Say: sayDarkroom, Pad: VisionPad,
		Tools: []Tool{zoom(f), rotate(), flip(), drawBox(f), drawLine(f), drawPoint(f), grid(), measure(f), readText(f), frame()},
	}
}

func readDarkroom(text string) Reading {
	if answer, ok := last(between(text, "<answer>", "</answer>")); ok && answer != "" {
		return Reading{Answer: answer, Answered: true}
	}
	var r Reading
	for _, body := range between(text, "<tool_call>", "</tool_call>") {
		v, err := pytext.OrderedJSON(pytext.Strip(body))
		if err != nil {
			r.Calls = append(r.Calls, Call{Refused: refuse(BadSyntax, "", "%v", err)})
			continue
		}
		call := named(v)
		if _, ok := call.Args.(pytext.Ordered); !ok && call.Refused == nil {
			call.Refused = refuse(WrongType, "", "arguments must be an object")
		}
		r.Calls = append(r.Calls, call)
	}
	return r
}

func sayDarkroom(s *State, r *Reply) string {
	var b strings.Builder
	b.WriteString("\n" + userTurn)
	n := len(s.Album.Pictures)
	for _, result := range r.Results {
		b.WriteString("<tool_response>\n")
		switch {
		case result.Refusal != nil:
			fmt.Fprintf(&b, `{"error": %s, "message": %s}`, pytext.Dumps(string(result.Refusal.Kind)), pytext.Dumps(result.Refusal.Message))
		default:
			for range result.Ops {
				n++
				fmt.Fprintf(&b, "Picture %d: %s", n, VisionPad)
			}
			b.WriteString(result.Text)
		}
		b.WriteString("\n</tool_response>\n")
	}
	return strings.TrimSuffix(b.String(), "\n") + modelTurn
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
