package tools

import (
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: verl's agent loop (tool_parser.py HermesToolParser, image_zoom_in_tool.py,
// tool_agent_loop.py). Every well-formed <tool_call> in order; malformed ones are left out in
// silence, and where none is left the episode ends as if no tool was asked for. One call a turn
// is made unless parallel says more. The zoom works on the given picture at full size: cut to
// it; empty or thinner than 1 : 100 is refused; a side under 28 pixels grows about the centre,
// in proportion, inside the picture. A refused box costs 0.05, which is recorded, and no part
// of the outcome. Held to vlm.tool_parse_hermes, vlm.tool_zoom_verl, vlm.tool_text_truncate.

const leastSide = 28

// Verl is its protocol with this number of calls made a turn.
func Verl(parallel int) *Protocol {
	return &Protocol{
		Name: "verl", Card: "Hermes calls and one zoom (verl's agent loop).",
		Source: "volcengine/verl 246cac4ca6b0, recipe/deepeyes",
		Cases:  []string{"vlm.tool_parse_hermes", "vlm.tool_zoom_verl", "vlm.tool_text_truncate"},
		Pad:    VisionPad, Observation: sayVerl,
		Tools: []Tool{{Name: "image_zoom_in_tool", Plan: zoomVerl}},
		Read: func(text string) Reading {
			r := Hermes(text)
			r.Calls = r.Calls[:min(parallel, len(r.Calls))]
			return r
		},
		Unknown: func(name string) *Refusal {
			return refuse(UnknownTool, "KeyError", "Error when executing tool: %s", pytext.ReprOf(name))
		},
		Worth: func(r Result) float64 {
			if r.Refusal != nil && r.Refusal.Kind == InvalidBox {
				return -0.05
			}
			return 0
		},
	}
}

// Hermes reads calls as vLLM's and verl's parsers of that name do: the well-formed ones, and in
// Rest the text without any. A text without a whole pair of tags is Rest as it is.
func Hermes(text string) Reading {
	if !strings.Contains(text, "<tool_call>") || !strings.Contains(text, "</tool_call>") {
		return Reading{Rest: text}
	}
	var r Reading
	for _, body := range between(text, "<tool_call>", "</tool_call>") {
		v, err := pytext.OrderedJSON(body)
		if err != nil {
			continue
		}
		name, err := field(v, "name")
		args, bad := field(v, "arguments")
		if s, ok := name.(string); ok && err == nil && bad == nil {
			r.Calls = append(r.Calls, Call{Name: s, Args: args})
		}
	}
	r.Rest = without(text, "<tool_call>", "</tool_call>")
	return r
}

func zoomVerl(s *State, args any) (Plan, error) {
	p, err := s.Album.picture(0)
	if err != nil {
		return Plan{}, err
	}
	d, ok := args.(pytext.Ordered)
	if !ok {
		return Plan{}, refuse(WrongType, "AttributeError", "Error when executing tool: '%s' object has no attribute 'get'", pytext.TypeName(args))
	}
	v := d.Values["bbox_2d"]
	four, many := items(v)
	switch {
	case !pytext.Truth(v) || many && len(four) != 4:
		return Plan{}, refuse(InvalidBox, "", "Error: bbox_2d parameter is missing or not a list of 4 numbers.")
	case !many:
		return Plan{}, refuse(WrongType, "TypeError", "Error when executing tool: object of type '%s' has no len()", pytext.TypeName(v))
	}
	var b Box
	for i, e := range four {
		if b[i], err = toFloat(e); err != nil {
			return Plan{}, refuse(InvalidBox, asRefusal(err).Raised, "Error processing image zoom-in: %v", err)
		}
	}
	b, ok = fittedVerl(b, float64(p.Width), float64(p.Height))
	if !ok {
		return Plan{}, refuse(InvalidBox, "", "Error: The specified bounding box %s is invalid or results in a crop smaller than the minimum size of %dx%d.", pytext.ReprOf(v), leastSide, leastSide)
	}
	op, err := crop(0, b)
	said := "Zoomed in on the image to the region " + pytext.ReprOf(v)
	if label, ok := d.Values["label"]; ok && pytext.Truth(label) {
		said += " with label " + pytext.Str(label)
	}
	return Plan{Ops: []Op{op}, Text: said + "."}, err
}

// fittedVerl is the box that is cropped: cut to the picture, and grown where it is small.
func fittedVerl(b Box, width, height float64) (Box, bool) {
	for i, v := range b { // a comparison with NaN is false
		switch {
		case i < 2 && !(v > 0):
			b[i] = 0
		case i == 2 && !(v < width):
			b[i] = width
		case i == 3 && !(v < height):
			b[i] = height
		}
	}
	if !b.proper() {
		return b, false
	}
	if b.height() < leastSide || b.width() < leastSide {
		b = grownVerl(b, width, height)
	}
	tall, wide := math.Floor(b[3])-math.Floor(b[1]), math.Floor(b[2])-math.Floor(b[0])
	return b, b.proper() && tall >= leastSide && wide >= leastSide
}

// grownVerl makes the shorter side 28 pixels, or as many as fit, and moves the box inside.
func grownVerl(b Box, width, height float64) Box {
	x, y := (b[0]+b[2])/2, (b[1]+b[3])/2
	ratio := leastSide / math.Min(b.height(), b.width())
	w, h := float64(b.width()*ratio), float64(b.height()*ratio)
	if w > width {
		by := width / w
		w, h = width, float64(h*by)
	}
	if h > height {
		by := height / h
		w, h = float64(w*by), height
	}
	left, top := math.Max(0, x-w/2), math.Max(0, y-h/2)
	if left+w > width {
		left = width - w
	}
	if top+h > height {
		top = height - h
	}
	return Box{math.Floor(left), math.Floor(top), math.Ceil(left + w), math.Ceil(top + h)}
}

// sayVerl is one message of the tool a call, as Qwen2.5-VL's template writes it.
func sayVerl(_ *State, r *Reply) string {
	var b strings.Builder
	for _, result := range r.Results {
		b.WriteString("<|im_start|>tool\n" + strings.Repeat(VisionPad, len(result.Ops)))
		text := result.Text
		if result.Refusal != nil {
			text = result.Refusal.Message
		}
		b.WriteString(Truncated(text, 256, "middle") + "<|im_end|>\n")
	}
	return b.String() + "<|im_start|>assistant\n"
}

// Truncated is a tool's text of at most n characters, with a mark where some are gone: "left"
// keeps the beginning, "right" the end, "middle" both ends, floor(n/2) characters each.
func Truncated(text string, n int, side string) string {
	runes := []rune(text)
	if len(runes) <= n || n < 0 {
		return text
	}
	switch side {
	case "left":
		return string(runes[:n]) + "...(truncated)"
	case "right":
		if n == 0 { // text[-0:] is all of it
			return "(truncated)..." + text
		}
		return "(truncated)..." + string(runes[len(runes)-n:])
	}
	half := n / 2
	end := runes[len(runes)-half:]
	if half == 0 {
		end = runes
	}
	return string(runes[:half]) + "...(truncated)..." + string(end)
}
