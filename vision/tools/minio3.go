package tools

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: Mini-o3 (Mini-o3/Mini-o3, vllm_rollout_spmd.py, function_tools.py, constants.py).
//
//	<grounding>{"bbox_2d": [x0, y0, x1, y1], "source": "original_image"}</grounding>
//
// Any whole pair of tags asks for the tool, even beside an answer. The last one is read, by a
// pattern that needs one space before the box and the source last; upstream evaluates the box
// as a Python expression, here expression.go reads lists and arithmetic and nothing else.
// source is original_image or observation_k, where k counts the album's pictures (the turns
// that are printed run ahead of it after a turn that failed). Coordinates are shares of the
// picture, or pixels of it as shown; cut towards zero, and to 0..w-1, 0..h-1; 1 : 200 is too
// thin. Held to vlm.tool_minio3 and vlm.observation_minio3.

// MiniO3 is its protocol: coordinates are shares of a picture's sides where relative, else
// pixels of it as shown.
func MiniO3(relative bool) *Protocol {
	m := miniO3{relative}
	return &Protocol{
		Name: "mini_o3", Card: "One box of any earlier picture, in <grounding> (Mini-o3).",
		Source: "Mini-o3/Mini-o3 8654dbf42d2e, verl/trainer/constants.py",
		Limits: Limits{Response: 32768, Margin: 2000, Turns: 6, Pictures: 12},
		Cases:  []string{"vlm.tool_minio3", "vlm.observation_minio3"},
		Read:   m.read, Observation: m.say, Pad: VisionPad, Together: true,
		Tools: []Tool{{Name: "grounding", Plan: m.plan}},
	}
}

type miniO3 struct{ relative bool }

var groundingForm = regexp.MustCompile(`(?s)^.*<grounding>\{"bbox_2d": (.*),.*"source": [',"](.*)[',"]\}</grounding>`)

func (m miniO3) read(text string) Reading {
	if len(between(text, "<grounding>", "</grounding>")) == 0 {
		answer, ok := last(between(text, "<answer>", "</answer>"))
		return Reading{Answer: answer, Answered: ok}
	}
	found := groundingForm.FindStringSubmatch(text)
	if found == nil {
		return one(Call{Refused: refuse(BadSyntax, "AttributeError", "'NoneType' object has no attribute 'group'")})
	}
	box, err := expression(found[1])
	return one(Call{Name: "grounding", Args: []any{box, found[2]}, Refused: asRefusal(err)})
}

func one(c Call) Reading { return Reading{Calls: []Call{c}} }

func (m miniO3) plan(s *State, args any) (Plan, error) {
	both := args.([]any) // as read wrote them
	box, ok := both[0].([]any)
	if !ok || len(box) != 4 {
		return Plan{}, refuse(BoxArity, "AssertionError", "")
	}
	i, err := observation(both[1].(string), len(s.Album.Pictures))
	if err != nil {
		return Plan{}, err
	}
	p := s.Album.Pictures[i]
	r, err := m.corners(box, p)
	if err != nil {
		return Plan{}, err
	}
	op, err := crop(i, r)
	return Plan{Ops: []Op{op}}, err
}

var sourceForm = regexp.MustCompile(`^observation_([0-9]*)`)

// observation is the number of the picture that a source names.
func observation(source string, n int) (int, error) {
	i := 0
	if source != "original_image" {
		found := sourceForm.FindStringSubmatch(source)
		if found == nil || found[1] == "" || len(found[1]) > 4300 {
			return 0, refuse(BadValue, "ValueError", `The 'source' argument "%s" does not match the pattern 'observation_([0-9]*)'.`, source)
		}
		var err error
		if i, err = strconv.Atoi(found[1]); err != nil {
			i = math.MaxInt
		}
	}
	if i >= n {
		return 0, refuse(NoPicture, "AssertionError", `Error in predicting the source observation: "%s".`, source)
	}
	return i, nil
}

// corners are the box in whole pixels of the picture.
func (m miniO3) corners(box []any, p Picture) (b Box, err error) {
	w, h := float64(p.Width), float64(p.Height)
	scale := [2]any{p.Width, p.Height}
	if !m.relative {
		scale = [2]any{w / float64(p.ShownWidth), h / float64(p.ShownHeight)}
	}
	same := !m.relative && p.Width == p.ShownWidth && p.Height == p.ShownHeight
	var scaled [4]any
	for i, v := range box {
		scaled[i] = v
		if !same {
			if scaled[i], err = times(v, scale[i%2]); err != nil {
				return b, err
			}
		}
	}
	for i, v := range scaled {
		if b[i], err = toInt(v); err != nil {
			return b, err
		}
	}
	b = Box{math.Max(b[0], 0), math.Max(b[1], 0), math.Min(b[2], w-1), math.Min(b[3], h-1)}
	if !(b[0] <= b[2]-1) {
		return b, refuse(InvalidBox, "AssertionError", "The bounding box is not valid in width: %s", whole(b))
	}
	if !(b[1] <= b[3]-1) {
		return b, refuse(InvalidBox, "AssertionError", "The bounding box is not valid in height: %s", whole(b))
	}
	if b.width()/b.height() >= 200 || b.height()/b.width() >= 200 {
		return b, refuse(InvalidBox, "ValueError", "The absolute aspect ratio of the bounding box exceeds 200, which is too large.")
	}
	return b, nil
}

// times is v * by, by an int or a float64: Python repeats texts by ints.
func times(v any, by any) (any, error) {
	n, isInt := by.(int)
	x, _ := by.(float64)
	if isInt {
		x = float64(n)
	}
	if f, ok := number(v); ok {
		return pytext.NewFloat(f * x), nil
	}
	name := pytext.TypeName(v)
	switch v := v.(type) {
	case string:
		if isInt { // only its beginning is ever shown
			return strings.Repeat(v, min(n, 1+longestLiteral/max(1, len(v)))), nil
		}
		return nil, refuse(WrongType, "TypeError", "can't multiply sequence by non-int of type 'float'")
	case []any:
		if isInt {
			return v, nil
		}
		return nil, refuse(WrongType, "TypeError", "can't multiply sequence by non-int of type 'float'")
	}
	return nil, refuse(WrongType, "TypeError", "unsupported operand type(s) for *: '%s' and '%s'", name, map[bool]string{true: "int", false: "float"}[isInt])
}

// longestLiteral is how much of a text int() repeats when it cannot read it.
const longestLiteral = 4 * 200

// toInt is int(v): cut towards zero.
func toInt(v any) (float64, error) {
	if x, ok := number(v); ok {
		switch {
		case math.IsNaN(x):
			return 0, refuse(BadValue, "ValueError", "cannot convert float NaN to integer")
		case math.IsInf(x, 0):
			return 0, refuse(BadValue, "OverflowError", "cannot convert float infinity to integer")
		}
		return math.Trunc(x), nil
	}
	s, ok := v.(string)
	if !ok {
		return 0, refuse(WrongType, "TypeError", "int() argument must be a string, a bytes-like object or a real number, not '%s'", pytext.TypeName(v))
	}
	if n, err := strconv.ParseFloat(pytext.Strip(s), 64); err == nil && strings.Trim(pytext.Strip(s), "+-0123456789") == "" {
		return n, nil
	}
	shown := []rune(pytext.ReprOf(s))
	return 0, refuse(BadValue, "ValueError", "invalid literal for int() with base 10: %s", string(shown[:min(200, len(shown))]))
}

// whole is a list of whole numbers as Python prints them, however large.
func whole(b Box) string {
	var all []string
	for _, v := range b {
		n, _ := new(big.Float).SetFloat64(v).Int(nil)
		all = append(all, n.String())
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func (m miniO3) say(s *State, r *Reply) string {
	if r.Refusal != nil {
		return userTurn + "ERROR occurs during grounding. Error Information: " + r.Refusal.Message +
			".\nPlease analyze the error information obtained from the function tool and adjust your response. Countinue your reasoning process inside <think> and </think>." + modelTurn
	}
	return MiniO3Observation(s.Turn)
}

// MiniO3Observation is the text after a crop: actions count from 0, observations from 1.
func MiniO3Observation(turn int) string {
	return userTurn + fmt.Sprintf("After the above Action %d, here is the the zoom-in image (Observation %d):\n%s.\n", turn, turn+1, VisionPad) +
		"Continue your reasoning process inside <think> and </think>. If needed, you can continue to zoom in on the original image or any of the observations, by outputting <grounding> and </grounding> as before. If the final answer is confirmed, put your final answer inside <answer> and </answer>." + modelTurn
}
