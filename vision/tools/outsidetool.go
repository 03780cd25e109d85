package tools

import (
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// An Answerer is tools that live outside of the program, as an episode calls them: a search, an environment.
type Answerer interface {
	// Answer is what a tool says to a call. An error is no answer: nothing is learned from the episode.
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
