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
	p := &Protocol{
		Name: "darkroom", Card: "Our own: every tool, strict JSON, any earlier picture.", In: DarkroomIn, Open: true,
		Read: readDarkroom, Observation: sayDarkroom, Pad: VisionPad,
	}
	for _, b := range Builtins() {
		p.Tools = append(p.Tools, b.Tool(f))
	}
	return p
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
