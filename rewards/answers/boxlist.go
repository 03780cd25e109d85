package answers

import (
	"fmt"
	"math"
	"strconv"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// A list of boxes, as models write it: [{"bbox_2d": [x0, y0, x1, y1], "label": "cup"}]. Entries
// may be anything.

// boxOf is an entry's box under a name; numbers that follow the fourth are ignored.
func boxOf(entry any, name string) (boxes.Box, bool) {
	o, _ := entry.(pytext.Object)
	return corners(o[name])
}

func corners(v any) (b boxes.Box, ok bool) {
	list, _ := v.([]any)
	if len(list) < 4 {
		return b, false
	}
	for i := range b {
		x, ok := numeric(list[i])
		if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
			return b, false
		}
		b[i] = x
	}
	return b, true
}

// numeric is a number, or true or false, which are numbers, too, in Python.
func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case pytext.Number:
		return v.Value, true
	case bool:
		return one(v), true
	}
	return 0, false
}

// hashed is a value as the key of a Python dict: 1, 1.0 and True are one key.
func hashed(v any) (string, bool) {
	if x, ok := numeric(v); ok {
		return "n" + strconv.FormatFloat(x, 'g', -1, 64), true
	}
	switch v := v.(type) {
	case string:
		return "s" + v, true
	case nil:
		return "", true
	}
	return "", false
}

// listed is what list() makes of JSON.
func listed(v any) ([]any, error) {
	switch v := v.(type) {
	case []any:
		return v, nil
	case pytext.Object:
		keys := make([]any, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		return keys, nil
	case string:
		var letters []any
		for _, r := range v {
			letters = append(letters, string(r))
		}
		return letters, nil
	}
	return nil, fmt.Errorf("a list of boxes was expected")
}

// listFrom reads a list out of a reply's JSON.
func listFrom(text string) ([]any, error) {
	v, err := pytext.JSON(text)
	if err != nil {
		return nil, err
	}
	return listed(v)
}
