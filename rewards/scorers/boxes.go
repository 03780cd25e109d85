package scorers

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// Card: boxes of detectors' outputs. A place of a YOLO has a box in pixels of the input and a score for each class; a
// query of a DETR has a box in shares of the picture and logits. A place counts by its best class. Boxes are cut to
// the picture, and of boxes that overlap, whatever their classes, the surest is kept, as nudenet does by OpenCV.
// Invariant (test): eyes.yolo_boxes.

// Found is one place of a detector.
type Found struct {
	Class int
	Score float64
	Box   boxes.Box // of the picture
}

// Detect finds things; of labels where some are given.
func (o *ONNX) Detect(ctx context.Context, m *vision.Image, labels []string) ([]rewards.Detection, error) {
	out, f, err := o.run(ctx, m)
	if err != nil {
		return nil, err
	}
	first, err := o.output(out, o.Output, 0)
	if err != nil {
		return nil, err
	}
	var rows []Found
	if o.Boxes == "detr" {
		places, err := o.output(out, o.Places, 1)
		if err != nil {
			return nil, err
		}
		rows, err = detrRows(first, places, o.Activation, float64(m.Width), float64(m.Height))
		if err != nil {
			return nil, err
		}
	} else if rows, err = yoloRows(first, f); err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r Found) bool {
		return len(o.Classes) > 0 && !slices.Contains(o.Classes, r.Class) || len(labels) > 0 && !slices.Contains(labels, o.name(r.Class))
	})
	var found []rewards.Detection
	for _, r := range kept(rows, m.Width, m.Height, o.Least, o.Overlap) {
		found = append(found, rewards.Detection{Class: o.name(r.Class), Box: r.Box, Score: r.Score})
	}
	return found, nil
}

// name is a class's name, or its number.
func (o *ONNX) name(class int) string {
	if class < len(o.names) && o.names[class] != "" {
		return o.names[class]
	}
	return strconv.Itoa(class)
}

// YOLO are the boxes of rows of a width, whose numbers are pixels of a square of some side, which a picture was
// padded to.
func YOLO(rows []float64, wide, width, height, side int, least, overlap float64) ([]Found, error) {
	t := &onnx.Tensor{Type: onnx.Float, Shape: []int{1, len(rows) / wide, wide}, F: make([]float32, len(rows))}
	for i, v := range rows {
		t.F[i] = float32(v)
	}
	scale := float64(max(width, height)) / float64(side)
	found, err := yoloPlaces(t, len(rows)/wide, wide, wide, 1, frame{0, 0, scale, scale})
	return kept(found, width, height, least, overlap), err
}

// yoloRows reads [1, 4 + classes, places], or [1, places, 4 + classes].
func yoloRows(t *onnx.Tensor, f frame) ([]Found, error) {
	if len(t.Shape) != 3 || t.Shape[0] != 1 || min(t.Shape[1], t.Shape[2]) < 5 {
		return nil, fmt.Errorf("the output is %v; rows of a YOLO are float[1,4+classes,places]", t)
	}
	places, wide, across, down := t.Shape[2], t.Shape[1], 1, t.Shape[2]
	if wide > places {
		places, wide, across, down = wide, places, places, 1
	}
	return yoloPlaces(t, places, wide, across, down, f)
}

// yoloPlaces reads places, across apart, of wide numbers, down apart.
func yoloPlaces(t *onnx.Tensor, places, wide, across, down int, f frame) ([]Found, error) {
	if wide < 5 {
		return nil, fmt.Errorf("rows of %d numbers; a box and a class are needed", wide)
	}
	rows := make([]Found, places)
	for i := range rows {
		at := func(k int) float64 { return float64(t.F[i*across+k*down]) }
		r := Found{Score: at(4)}
		for k := 5; k < wide; k++ {
			if at(k) > r.Score {
				r.Class, r.Score = k-4, at(k)
			}
		}
		cx, cy, w, h := (at(0)-f.left)*f.scaleX, (at(1)-f.top)*f.scaleY, float64(at(2)*f.scaleX), float64(at(3)*f.scaleY)
		r.Box = boxes.Box{cx - w/2, cy - h/2, cx + w/2, cy + h/2}
		rows[i] = r
	}
	return rows, nil
}

// detrRows reads logits [1, queries, classes] and boxes [1, queries, 4]. Of a softmax, the last class is nothing.
func detrRows(logits, places *onnx.Tensor, activation string, width, height float64) ([]Found, error) {
	if len(logits.Shape) == 3 && len(places.Shape) == 3 && places.Shape[2] != 4 && logits.Shape[2] == 4 {
		logits, places = places, logits
	}
	if len(logits.Shape) != 3 || len(places.Shape) != 3 || places.Shape[2] != 4 || logits.Shape[0] != 1 || places.Shape[1] != logits.Shape[1] {
		return nil, fmt.Errorf("the outputs are %v and %v; a DETR's are float[1,queries,classes] and float[1,queries,4]", logits, places)
	}
	n, classes := logits.Shape[1], logits.Shape[2]
	rows := make([]Found, n)
	for i := range rows {
		all := make([]float64, classes)
		for k := range all {
			all[k] = float64(logits.F[i*classes+k])
		}
		activate(all, activation)
		if activation == "softmax" {
			all = all[:len(all)-1]
		}
		r := Found{}
		for k, v := range all {
			if k == 0 || v > r.Score {
				r.Class, r.Score = k, v
			}
		}
		b := places.F[4*i : 4*i+4]
		cx, cy, w, h := float64(b[0])*width, float64(b[1])*height, float64(b[2])*width, float64(b[3])*height
		r.Box = boxes.Box{cx - w/2, cy - h/2, cx + w/2, cy + h/2}
		rows[i] = r
	}
	return rows, nil
}

// kept are the boxes surer than a score, cut to the picture, the surest of those that overlap, by falling score.
func kept(rows []Found, width, height int, least, overlap float64) []Found {
	var sure []Found
	for _, r := range rows {
		if r.Score <= least {
			continue
		}
		w, h := float64(width), float64(height)
		x, y := max(0, min(r.Box[0], w)), max(0, min(r.Box[1], h))
		r.Box = boxes.Box{x, y, x + max(0, min(r.Box[2]-r.Box[0], w-x)), y + max(0, min(r.Box[3]-r.Box[1], h-y))}
		sure = append(sure, r)
	}
	slices.SortStableFunc(sure, func(a, b Found) int { return cmp.Compare(b.Score, a.Score) })
	var out []Found
	for _, r := range sure {
		if !slices.ContainsFunc(out, func(k Found) bool { return overlaps(k.Box, r.Box) > overlap }) {
			out = append(out, r)
		}
	}
	return out
}

// overlaps is the intersection over the union; of two boxes without area, as OpenCV has it, 1.
func overlaps(a, b boxes.Box) float64 {
	if a.Area()+b.Area() <= 0 {
		return 1
	}
	return boxes.IoU(a, b)
}

// named is an entry of a dictionary as Python writes it: 0: 'person'.
var named = regexp.MustCompile(`(\d+)\s*:\s*['"]([^'"]*)['"]`)

// classNames reads the names that YOLO's exports note.
func classNames(text string) []string {
	var names []string
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		i, err := strconv.Atoi(m[1])
		if err != nil || i > 100_000 {
			continue
		}
		for len(names) <= i {
			names = append(names, "")
		}
		names[i] = m[2]
	}
	return names
}
