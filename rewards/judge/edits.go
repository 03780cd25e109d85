package judge

import (
	"regexp"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: two marks for an edited picture (Pref-GRPO, unifiedreward_edit_pointwise.py): JSON, or the
// text from the first brace to the last, with "score": [a, b], 0 to 25 each, neither clipped nor
// scaled. Numbers in quotation marks count. Upstream makes [0, 0] of what it cannot read.
// Invariant (test): marks come through JSON, fences and words around them.

var braced = regexp.MustCompile(`(?s)\{.*\}`)

// EditMarks are both marks of an answer.
func EditMarks(reply string) (marks [2]float64, ok bool) {
	text := pytext.Strip(reply)
	v, err := pytext.JSON(text)
	if inner, isText := v.(string); err == nil && isText {
		text = pytext.Strip(inner)
	}
	o, isObject := v.(pytext.Object)
	if !isObject {
		v, _ = pytext.JSON(braced.FindString(text))
		o, _ = v.(pytext.Object)
	}
	list, _ := o["score"].([]any)
	if len(list) < 2 {
		return marks, false
	}
	for i := range marks {
		if marks[i], ok = number(list[i]); !ok {
			return [2]float64{}, false
		}
	}
	return marks, true
}

// number is float(v).
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case pytext.Number:
		return v.Value, true
	case string:
		return pytext.Float(v)
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
