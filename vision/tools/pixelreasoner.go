package tools

import (
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: Pixel-Reasoner (TIGER-AI-Lab/Pixel-Reasoner, experience_maker.py). A call is wanted only where the text ends
// with </tool_call>; the text after the last <tool_call> is read as JSON.
//
//	crop_image_normalized {"bbox_2d": [...], "target_image": k}
//	select_frames         {"target_frames": [...]}
//
// Four numbers below 1 are shares of the picture, else all are pixels. A tenth of the picture
// is added on every side, then the box is cut to it; the crop must exceed 28 pixels. Picture 1
// is the prompt's at full size, later ones are taken as they were shown; 0 silently is the
// prompt's last picture, as Python's negative indices have it. Frames count from 1, at most 8;
// 0 is the last. Held to vlm.tool_pixel_reasoner and vlm.tool_select_frames.

const callEnd = "</tool_call>"

// PixelReasoner is its protocol. size is the size in which a crop is shown, of which its
// observation speaks; nil: as it is.
func PixelReasoner(size func(width, height int) (w, h int, err error)) *Protocol {
	p := pixelReasoner{size}
	return &Protocol{
		Name: "pixel_reasoner", Card: "Crops and frames of a clip, one call a turn (Pixel-Reasoner).",
		Source: "TIGER-AI-Lab/Pixel-Reasoner a3a6c3a557a8, experience_maker.py and prompts_dataset.py; QwenLM/Qwen-Agent 545bca767608, nous_fncall_prompt.py",
		Limits: Limits{Observations: 4},
		Cases:  []string{"vlm.tool_pixel_reasoner", "vlm.tool_select_frames"},
		Read:   p.read, Observation: p.say, Pad: VisionPad, Together: true,
		Tools: []Tool{{Name: "crop_image_normalized", Plan: p.crop}, {Name: "select_frames", Plan: p.frames}},
		Unknown: func(name string) *Refusal {
			r := missing(name)
			r.Kind = UnknownTool
			return r
		},
	}
}

type pixelReasoner struct {
	size func(width, height int) (w, h int, err error)
}

// wants reports whether a text ends with a call.
func (p pixelReasoner) wants(text string) bool {
	return strings.HasSuffix(strings.ReplaceAll(text, "<|im_end|>", ""), callEnd)
}

func (p pixelReasoner) read(text string) Reading {
	if !p.wants(text) {
		return Reading{Answered: true, Answer: text}
	}
	v, err := pytext.OrderedJSON(pytext.First(pytext.Last(text, "<tool_call>"), callEnd))
	if err != nil {
		return one(Call{Refused: refuse(BadSyntax, "JSONDecodeError", "%v", err)})
	}
	return one(named(v))
}

func (p pixelReasoner) crop(s *State, args any) (Plan, error) {
	target, err := field(args, "target_image")
	if err != nil {
		return Plan{}, err
	}
	i, full, err := pythonIndex(target, len(s.Album.Pictures), s.Album.given())
	if err != nil {
		return Plan{}, err
	}
	box, err := field(args, "bbox_2d")
	if err != nil {
		return Plan{}, err
	}
	pic := s.Album.Pictures[i]
	w, h := float64(pic.Width), float64(pic.Height)
	if !full {
		w, h = float64(pic.ShownWidth), float64(pic.ShownHeight)
	}
	b, err := padded(box, w, h)
	if err != nil {
		return Plan{}, err
	}
	op, err := crop(i, b)
	if err != nil {
		return Plan{}, err
	}
	cw, ch := op.Rect.Width(), op.Rect.Height()
	if !(cw > 28 && ch > 28) {
		return Plan{}, refuse(InvalidBox, "AssertionError", "Cropped image is too small: %dx%d", cw, ch)
	}
	op.Shown = !full && (pic.Width != pic.ShownWidth || pic.Height != pic.ShownHeight)
	if p.size != nil {
		if cw, ch, err = p.size(cw, ch); err != nil {
			return Plan{}, refuse(InvalidBox, "ValueError", "%v", err)
		}
		op.ToWidth, op.ToHeight = cw, ch
	}
	return Plan{Ops: []Op{op}, Text: fmt.Sprintf("\nHere is the cropped image (Image Size: %dx%d):", cw, ch)}, nil
}

// pythonIndex is picture target-1 of n, of which the first given ones are the prompt's: full
// says that it is one of those, which Python's negative indices count from.
func pythonIndex(target any, n, given int) (i int, full bool, err error) {
	k, ok := number(target)
	if !ok {
		return 0, false, refuse(WrongType, "TypeError", "unsupported operand type(s) for -: '%s' and 'int'", pytext.TypeName(target))
	}
	if k--; !(k < float64(n)) {
		return 0, false, refuse(NoPicture, "AssertionError", "Execution Error: Incorrect `target_image` argument in `crop_image_normalized` operation. You can only pick an image within [1,%d]", n)
	}
	if t, ok := target.(pytext.Number); ok && t.IsFloat {
		return 0, false, refuse(WrongType, "TypeError", "list indices must be integers or slices, not float")
	}
	if k < float64(-given) {
		return 0, false, refuse(NoPicture, "IndexError", "list index out of range")
	}
	if i = int(k); i < 0 {
		i += given
	}
	return i, i < given, nil
}

// padded is a box with a tenth of the picture added on every side, cut to it.
func padded(v any, width, height float64) (Box, error) {
	shares := true
	for i := 0; i < 4 && shares; i++ { // the first number that is not a share ends the loop
		e, err := element(v, i)
		if err != nil {
			return Box{}, err
		}
		x, ok := number(e)
		if !ok {
			return Box{}, uncomparable("<", e)
		}
		shares = x < 1
	}
	const padding = 0.1
	var b Box
	for i, size := range [4]float64{width, height, width, height} {
		e, err := element(v, i)
		if err != nil {
			return b, err
		}
		x, err := toFloat(e)
		if err != nil {
			return b, err
		}
		if !shares {
			x /= size
		}
		if i < 2 {
			x -= padding
		} else {
			x += padding
		}
		share := 0.0 // NaN, too
		if x > 0 {
			share = math.Min(x, 1)
		}
		b[i] = share * size
	}
	return b, nil
}

func (p pixelReasoner) frames(s *State, args any) (Plan, error) {
	if len(s.Album.Clip) == 0 {
		return Plan{}, refuse(NoPicture, "AssertionError", "Execution Error: You attempted to `select_frames` from **image** not **video**. You should use `crop_image_normalized` instead for inspecting **image**.")
	}
	target, err := field(args, "target_frames")
	if err != nil {
		return Plan{}, err
	}
	frames, err := SelectedFrames(target, len(s.Album.Clip))
	var plan Plan
	for _, f := range frames {
		plan.Ops = append(plan.Ops, Op{Kind: "frame", Picture: f})
	}
	return plan, err
}

// SelectedFrames are the frames of n, counted from 0, that select_frames picks.
func SelectedFrames(target any, n int) ([]int, error) {
	all, ok := items(target)
	if !ok {
		return nil, refuse(WrongType, "TypeError", "object of type '%s' has no len()", pytext.TypeName(target))
	}
	if len(all) > 8 {
		return nil, refuse(BadValue, "AssertionError", "Execution Error: You have selected %d frames in total. Think again which frames you need to check in details (no more than 8 frames)", len(all))
	}
	if len(all) == 0 {
		return nil, refuse(BadValue, "ValueError", "max() iterable argument is empty")
	}
	highest := math.Inf(-1)
	for _, v := range all {
		x, ok := number(v)
		if !ok {
			return nil, uncomparable(">", v)
		}
		highest = math.Max(highest, x)
	}
	if highest > float64(n) {
		return nil, refuse(NoPicture, "AssertionError", "Execution Error: There are %d frames numbered in range [1,%d]. Your selection `target_frames=%s` is out of range.", n, n, pytext.ReprOf(target))
	}
	var frames []int
	for _, v := range all {
		x, _ := number(v)
		if t, ok := v.(pytext.Number); ok && t.IsFloat {
			return nil, refuse(WrongType, "TypeError", "list indices must be integers or slices, not float")
		}
		if x--; x < float64(-n) {
			return nil, refuse(NoPicture, "IndexError", "list index out of range")
		}
		frames = append(frames, (int(x)+n)%n)
	}
	return frames, nil
}

func (p pixelReasoner) say(s *State, r *Reply) string {
	text := ""
	switch {
	case r.Refusal != nil:
		text = "\nExecution error:\n" + r.Refusal.Message + "\n"
	case len(r.Results) > 0:
		text = r.Results[0].Text
		if text == "" {
			text = framesText(s, r)
		}
	}
	return userTurn + text + strings.Repeat(VisionPad, r.Pictures) + modelTurn
}

// framesText numbers frames by how many pictures there are.
func framesText(s *State, r *Reply) string {
	n := max(1, len(s.Album.Pictures))
	w, h := 0, 0
	if len(s.Album.Clip) > 0 && s.Album.Clip[0] != nil {
		w, h = s.Album.Clip[0].Width, s.Album.Clip[0].Height
	}
	return fmt.Sprintf("\nHere are the selected frames (Frame Size: %dx%d, Numbered %d to %d):", w, h, n, n+r.Pictures-1)
}
