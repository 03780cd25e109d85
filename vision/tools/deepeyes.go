package tools

import (
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: DeepEyes (Visual-Agent/DeepEyes, visual_toolbox_v2.py and _v5.py). Calls are JSON in
// <tool_call>; an answer that is not empty ends the episode before any call. Tools work on the
// prompt's first picture at full size.
//
//	v2: of several calls only the last is made; a box needs more than 30 pixels a side
//	v5: the first three calls are made, and one that fails refuses the turn; boxes under 28
//	    pixels are made larger about their centre, even beyond the picture's edge
//
// A box is cut to the picture first; thinner than 1 : 100 is refused. Held to vlm.tool_deepeyes.

const (
	userTurn  = "<|im_start|>user\n"
	modelTurn = "<|im_end|>\n<|im_start|>assistant\n"
)

// deepEyes is a version of it.
type deepEyes struct {
	open  string  // the beginning of an observation
	calls int     // how many are made a turn; 0: the last alone
	least float64 // pixels that a box must exceed
	ask   string  // the reminder after pictures
}

// DeepEyes is its second version.
func DeepEyes() *Protocol {
	return deepEyes{
		open: "\n" + userTurn, least: 30,
		ask: "\nThink first, call **image_zoom_in_tool** if needed, then answer. Format strictly as:  <think>...</think>  <tool_call>...</tool_call> (if tools needed)  <answer>...</answer> ",
	}.protocol("deepeyes", "The last call of a turn; boxes of more than 30 pixels a side (DeepEyes, visual_toolbox_v2).")
}

// DeepEyesV5 is the fifth.
func DeepEyesV5() *Protocol {
	return deepEyes{
		open: "<|im_end|>\n" + userTurn, calls: 3, least: math.Inf(-1),
		ask: "\nThink in the mind first, and then decide whether to call tools one or more times OR provide final answer. Format strictly as: <think>...</think> <tool_call>...</tool_call> <tool_call>...</tool_call> (if any tools needed) OR <answer>...</answer> (if no tools needed).",
	}.protocol("deepeyes_v5", "The first three calls of a turn; small boxes grow (DeepEyes, visual_toolbox_v5).")
}

func (d deepEyes) protocol(name, card string) *Protocol {
	return &Protocol{
		Name: name, Card: card,
		Source: "Visual-Agent/DeepEyes 6c5e79671dbf, verl/workers/agent/envs/mm_process_engine/prompt.py",
		Limits: Limits{Tokens: 8192 + 20480, PromptRoom: 8192, Turns: 5, ActFirst: true}, // of its 7B model
		Cases:  []string{"vlm.tool_deepeyes"},
		Read:   d.read, Observation: d.say, Pad: "<image>", Together: true,
		Tools: []Tool{{Name: "image_zoom_in_tool", Plan: d.zoom}, {Name: "image_rotate_tool", Plan: d.rotate}},
		Unknown: func(name string) *Refusal {
			return refuse(UnknownTool, "ValueError", "Unknown tool name: %s", name)
		},
	}
}

func (d deepEyes) read(text string) Reading {
	if answer, ok := last(between(text, "<answer>", "</answer>")); ok && answer != "" {
		return Reading{Answer: answer, Answered: true}
	}
	calls := between(text, "<tool_call>", "</tool_call>")
	if d.calls == 0 {
		one, ok := last(calls)
		if !ok || one == "" {
			return Reading{}
		}
		return Reading{Calls: []Call{d.call(one)}}
	}
	var r Reading
	for _, one := range calls[:min(d.calls, len(calls))] {
		r.Calls = append(r.Calls, d.call(one))
	}
	return r
}

func (d deepEyes) call(text string) Call {
	text = pytext.Strip(text)
	v, err := pytext.OrderedJSON(text)
	if err != nil {
		r := refuse(BadSyntax, "JSONDecodeError", "%v", err)
		if d.calls == 0 {
			r.Message = "Invalid tool call format: " + text + ". Error: " + err.Error()
		}
		return Call{Refused: r}
	}
	return named(v)
}

// named is an object with a name and arguments as a call. A name that is not a text is written as Python prints it.
func named(v any) Call {
	name, err := field(v, "name")
	if err != nil {
		return Call{Refused: asRefusal(err)}
	}
	args, err := field(v, "arguments")
	return Call{Name: pytext.Str(name), Args: args, Refused: asRefusal(err)}
}

func (d deepEyes) zoom(s *State, args any) (Plan, error) {
	p, err := s.Album.picture(0)
	if err != nil {
		return Plan{}, err
	}
	v, err := field(args, "bbox_2d")
	if err != nil {
		return Plan{}, err
	}
	four, err := spread(v)
	if err != nil {
		return Plan{}, err
	}
	b, err := clamped(four, float64(p.Width), float64(p.Height))
	if err != nil {
		return Plan{}, err
	}
	if b, err = d.grown(b); err != nil {
		return Plan{}, err
	}
	op, err := crop(0, b)
	return Plan{Ops: []Op{op}}, err
}

// spread is f(*v) for a function of four parameters.
func spread(v any) ([4]any, error) {
	var four [4]any
	all, ok := items(v)
	if !ok {
		return four, refuse(BoxArity, "TypeError", "argument after * must be an iterable, not %s", pytext.TypeName(v))
	}
	if len(all) != 4 {
		return four, refuse(BoxArity, "TypeError", "a box takes 4 positional arguments but %d were given", len(all))
	}
	copy(four[:], all)
	return four, nil
}

// clamped is a box cut to a picture: an edge that is not a number becomes the picture's.
func clamped(v [4]any, width, height float64) (b Box, err error) {
	if b[0], err = atLeast(0, v[0]); err != nil {
		return b, err
	}
	if b[1], err = atLeast(0, v[1]); err != nil {
		return b, err
	}
	if b[2], err = atMost(width, v[2]); err != nil {
		return b, err
	}
	b[3], err = atMost(height, v[3])
	return b, err
}

func (d deepEyes) valid(b Box) bool { return b.proper() && math.Min(b.width(), b.height()) > d.least }

// grown makes a side under 28 pixels as long, and the other in proportion.
func (d deepEyes) grown(b Box) (Box, error) {
	invalid := refuse(InvalidBox, "ValueError", "ZOOM IN ARGUMENTS ARE INVALID")
	if !d.valid(b) {
		return b, invalid
	}
	w, h := b.width(), b.height()
	if h >= 28 && w >= 28 {
		return b, nil
	}
	x, y, ratio := (b[0]+b[2])/2, (b[1]+b[3])/2, 28/math.Min(h, w)
	halfH, halfW := math.Ceil(h*ratio*0.5), math.Ceil(w*ratio*0.5)
	b = Box{math.Floor(x - halfW), math.Floor(y - halfH), math.Ceil(x + halfW), math.Ceil(y + halfH)}
	if !d.valid(b) {
		return b, invalid
	}
	return b, nil
}

func (d deepEyes) rotate(s *State, args any) (Plan, error) {
	v, err := field(args, "angle")
	if err != nil {
		return Plan{}, err
	}
	angle, ok := number(v)
	if !ok {
		return Plan{}, refuse(WrongType, "TypeError", "unsupported operand type(s) for %%: '%s' and 'float'", pytext.TypeName(v))
	}
	return Plan{Ops: []Op{{Kind: "rotate", Angle: angle}}}, nil
}

func (d deepEyes) say(_ *State, r *Reply) string {
	switch {
	case r.Refusal != nil:
		return d.open + "Error: " + r.Refusal.Message + modelTurn
	case d.calls == 0:
		return d.open + "<tool_response><image>" + d.ask + "</tool_response>" + modelTurn
	}
	return d.open + strings.Repeat("<tool_response>\n<image>\n</tool_response>\n", r.Pictures) + d.ask + modelTurn
}
