package answers

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: lists of labelled boxes in a reply, as VLM-R1 (grpo_jsonl.py) judges them.
//
//	MAP       COCO's average precision of one picture, all confidences 1; labels that the truth
//	          does not have are dropped. Fifty takes the threshold .5 alone; Length multiplies by
//	          min(1, asked for/found). Both lists empty are 1, one of them is 0
//	Detected  the same on the last answer tags, where "None" for "None" is 1
//	Weighted  0.7 mean IoU of matched boxes over those asked for + 0.3 (1 - (missed share + false
//	          share)/2). Pairs are matched greedily, IoU 0.5 and better; one with the wrong label
//	          counts as matched, with IoU 0
//
// MAP reads the last ```json block, Weighted the first, after Clean has lower-cased everything. PixelOverlap is
// theirs: corners are pixels, the last excluded, so that an overlap one pixel wide counts as none. A box whose label
// is not a text matches no label: upstream gives it the label of the pair before. Invariants (tests): the truth
// itself is 1; boxes with numbers that are not finite never match.

// PixelOverlap is the overlap of boxes as VLM-R1 computes it.
func PixelOverlap(a, b boxes.Box) float64 {
	x0, y0 := max(a[0], b[0]), max(a[1], b[1])
	x1, y1 := min(a[2]-1, b[2]-1), min(a[3]-1, b[3]-1)
	both := 0.0
	if x0 < x1 && y0 < y1 {
		both = float64((x1 - x0 + 1) * (y1 - y0 + 1))
	}
	if either := a.Area() + b.Area() - both; either != 0 {
		return both / either
	}
	return 0
}

// MAP are the options of average precision as a reward.
type MAP struct {
	Fifty  bool // of the threshold .5 alone
	Length bool // boxes too many cost
}

// Rule judges the last ```json block.
func (m MAP) Rule(reply, truth string) (rewards.Score, error) {
	var asked, found []any
	var err error
	if text, ok := lastIn(fencedJSON, truth); ok && pytext.Strip(text) != "" {
		if asked, err = listFrom(pytext.Strip(text)); err != nil {
			return rewards.Score{}, fmt.Errorf("the truth's boxes: %w", err)
		}
	}
	if text, ok := lastIn(fencedJSON, reply); ok {
		found, _ = listFrom(pytext.Strip(text)) // an unreadable list has no boxes
	}
	value := one(len(found) == 0 && len(asked) == 0)
	if len(found) > 0 && len(asked) > 0 {
		if value, err = m.precision(found, asked); err != nil {
			return rewards.Score{}, err
		}
	}
	if m.Length && len(found) > len(asked) {
		value *= float64(len(asked)) / float64(len(found))
	}
	return rewards.Score{Value: value, Evidence: foundBoxes(found, "bbox_2d")}, nil
}

// hasBoxes is the error of a truth without a block of boxes that can be read: upstream takes it for one without boxes,
// and a reply without any would be right.
func hasBoxes(truth string) error {
	text, ok := lastIn(fencedJSON, truth)
	if !ok {
		return fmt.Errorf("the truth %.80q has no ```json block of boxes", truth)
	}
	var asked []any
	if text = pytext.Strip(text); text != "" {
		var err error
		if asked, err = listFrom(text); err != nil {
			return fmt.Errorf("the truth's boxes: %w", err)
		}
	}
	for i, entry := range asked {
		o, _ := entry.(pytext.Object)
		_, placed := boxOf(entry, "bbox_2d")
		if _, named := o["label"]; !named || !placed {
			return fmt.Errorf("box %d of the truth is not {\"bbox_2d\": [x0, y0, x1, y1], \"label\": ...}", i)
		}
	}
	return nil
}

// hasDetected is hasBoxes of a truth in answer tags, which may be None.
func hasDetected(truth string) error {
	asked, ok := firstIn(answerTag, truth)
	switch asked = pytext.Strip(asked); {
	case !ok:
		return fmt.Errorf("the truth has no <answer>...</answer>: %.80q", truth)
	case asked == "None":
		return nil
	}
	return hasBoxes(asked)
}

func (m MAP) precision(found, asked []any) (float64, error) {
	classes := map[string]int{}
	var truth []boxes.Truth
	for i, entry := range asked {
		o, _ := entry.(pytext.Object)
		label, named := o["label"]
		key, hashable := hashed(label)
		b, placed := boxOf(entry, "bbox_2d")
		if !named || !hashable || !placed {
			return 0, fmt.Errorf("box %d of the truth is not {\"bbox_2d\": [x0, y0, x1, y1], \"label\": ...}", i)
		}
		if _, ok := classes[key]; !ok {
			classes[key] = len(classes)
		}
		truth = append(truth, boxes.Truth{Rect: sized(b), Class: classes[key]})
	}
	var claims []boxes.Found
	for _, entry := range found {
		o, _ := entry.(pytext.Object)
		label, named := o["label"]
		key, hashable := hashed(label)
		class, known := classes[key]
		if b, placed := boxOf(entry, "bbox_2d"); named && hashable && known && placed {
			claims = append(claims, boxes.Found{Rect: sized(b), Class: class, Score: 1})
		}
	}
	if len(claims) == 0 {
		return 0, nil
	}
	p := boxes.AveragePrecision(truth, claims, len(classes))
	if m.Fifty {
		return p.AP50, nil
	}
	return p.AP, nil
}

func sized(b boxes.Box) boxes.Rect {
	return boxes.Rect{X: b[0], Y: b[1], W: b[2] - b[0], H: b[3] - b[1]}
}

// foundBoxes are boxes as evidence.
func foundBoxes(list []any, name string) []evidence.Reason {
	var all []evidence.Reason
	for _, entry := range list {
		o, _ := entry.(pytext.Object)
		if b, ok := boxOf(entry, name); ok {
			all = append(all, evidence.Reason{What: "found", Text: written(o["label"]), Box: &b})
		}
	}
	return all
}

// Detected judges the last answer.
func (m MAP) Detected(reply, truth string) (rewards.Score, error) {
	said, ok := lastIn(answerTag, reply)
	if !ok {
		return judged(0, "reply", reply), nil
	}
	asked, ok := firstIn(answerTag, truth)
	if !ok {
		return rewards.Score{}, fmt.Errorf("the truth has no <answer>...</answer>: %.80q", truth)
	}
	said, asked = pytext.Strip(said), pytext.Strip(asked)
	if asked == "None" && said == "None" {
		return judged(1, "answer", said), nil
	}
	return m.Rule(said, asked)
}

// Weighted is the weighted sum of position and completeness.
func Weighted(reply, truth string) (rewards.Score, error) {
	var found, asked []any
	if text, ok := firstIn(fencedJSON, Clean(reply)); ok {
		found, _ = listFrom(pytext.Strip(text)) // an unreadable list has no boxes
	}
	if text, ok := firstIn(fencedJSON, Clean(truth)); ok && pytext.Strip(text) != "" {
		var err error
		if asked, err = listFrom(pytext.Strip(text)); err != nil {
			return rewards.Score{}, fmt.Errorf("the truth's boxes: %w", err)
		}
	}
	s := rewards.Score{Value: one(len(found) == len(asked)), Evidence: foundBoxes(found, "bbox_2d")}
	if len(found) == 0 || len(asked) == 0 {
		return s, nil
	}
	sum, matched := matchGreedily(found, asked)
	missed := float64(len(asked)-matched) / float64(len(asked))
	wrong := float64(len(found)-matched) / float64(len(found))
	s.Value = float64(0.7*(sum/float64(len(asked)))) + float64(0.3*(1-float64((missed+wrong)/2)))
	return s, nil
}

// matchGreedily pairs boxes by falling IoU, and returns the sum over pairs of one label, and
// how many pairs there are of any.
func matchGreedily(found, asked []any) (sum float64, matched int) {
	iou := make([][]float64, len(found))
	for i, f := range found {
		iou[i] = make([]float64, len(asked))
		a, ok := boxOf(f, "bbox_2d")
		for j, g := range asked {
			if b, too := boxOf(g, "bbox_2d"); ok && too {
				iou[i][j] = PixelOverlap(a, b)
			}
		}
	}
	freeFound, freeAsked := upTo(len(found)), upTo(len(asked))
	for len(freeFound) > 0 && len(freeAsked) > 0 {
		best, atF, atA := -1.0, 0, 0
		for _, i := range freeFound {
			for _, j := range freeAsked {
				if iou[i][j] > best {
					best, atF, atA = iou[i][j], i, j
				}
			}
		}
		if best < 0.5 {
			break
		}
		if label, ok := labelOf(found[atF]); ok {
			if want, _ := labelOf(asked[atA]); label == want {
				sum += best
			}
		}
		matched++
		freeFound = slices.DeleteFunc(freeFound, func(i int) bool { return i == atF })
		freeAsked = slices.DeleteFunc(freeAsked, func(j int) bool { return j == atA })
	}
	return sum, matched
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// labelOf is an entry's label, where it is a text.
func labelOf(entry any) (string, bool) {
	o, _ := entry.(pytext.Object)
	label, ok := o["label"].(string)
	return pytext.Lower(label), ok
}

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

// listed does as Python's list() with JSON values.
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
