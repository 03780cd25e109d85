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

// A row is one place of a detector.
type row struct {
	class int
	score float64
	box   boxes.Box // of the picture
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
	var rows []row
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
	rows = slices.DeleteFunc(rows, func(r row) bool {
		return len(o.Classes) > 0 && !slices.Contains(o.Classes, r.class) || len(labels) > 0 && !slices.Contains(labels, o.name(r.class))
	})
	var found []rewards.Detection
	for _, r := range Kept(rows, m.Width, m.Height, o.Least, o.Overlap) {
		found = append(found, rewards.Detection{Class: o.name(r.class), Box: r.box, Score: r.score})
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

// yoloRows reads [1, 4 + classes, places], or [1, places, 4 + classes].
func yoloRows(t *onnx.Tensor, f frame) ([]row, error) {
	if len(t.Shape) != 3 || t.Shape[0] != 1 || min(t.Shape[1], t.Shape[2]) < 5 {
		return nil, fmt.Errorf("the output is %v; rows of a YOLO are float[1,4+classes,places]", t)
	}
	places, wide, across, down := t.Shape[2], t.Shape[1], 1, t.Shape[2]
	if wide > places {
		places, wide, across, down = wide, places, places, 1
	}
	rows := make([]row, places)
	for i := range rows {
		at := func(k int) float64 { return float64(t.F[i*across+k*down]) }
		r := row{score: at(4)}
		for k := 5; k < wide; k++ {
			if at(k) > r.score {
				r.class, r.score = k-4, at(k)
			}
		}
		cx, cy, w, h := (at(0)-f.left)*f.scaleX, (at(1)-f.top)*f.scaleY, float64(at(2)*f.scaleX), float64(at(3)*f.scaleY)
		r.box = boxes.Box{cx - w/2, cy - h/2, cx + w/2, cy + h/2}
		rows[i] = r
	}
	return rows, nil
}

// detrRows reads logits [1, queries, classes] and boxes [1, queries, 4]. Of a softmax, the last class is nothing.
func detrRows(logits, places *onnx.Tensor, activation string, width, height float64) ([]row, error) {
	if len(logits.Shape) == 3 && len(places.Shape) == 3 && places.Shape[2] != 4 && logits.Shape[2] == 4 {
		logits, places = places, logits
	}
	if len(logits.Shape) != 3 || len(places.Shape) != 3 || places.Shape[2] != 4 || logits.Shape[0] != 1 || places.Shape[1] != logits.Shape[1] {
		return nil, fmt.Errorf("the outputs are %v and %v; a DETR's are float[1,queries,classes] and float[1,queries,4]", logits, places)
	}
	n, classes := logits.Shape[1], logits.Shape[2]
	rows := make([]row, n)
	for i := range rows {
		all := make([]float64, classes)
		for k := range all {
			all[k] = float64(logits.F[i*classes+k])
		}
		activate(all, activation)
		if activation == "softmax" {
			all = all[:len(all)-1]
		}
		r := row{}
		for k, v := range all {
			if k == 0 || v > r.score {
				r.class, r.score = k, v
			}
		}
		b := places.F[4*i : 4*i+4]
		cx, cy, w, h := float64(b[0])*width, float64(b[1])*height, float64(b[2])*width, float64(b[3])*height
		r.box = boxes.Box{cx - w/2, cy - h/2, cx + w/2, cy + h/2}
		rows[i] = r
	}
	return rows, nil
}

// Kept are the boxes surer than a score, cut to the picture, the surest of those that overlap, by falling score.
func Kept(rows []row, width, height int, least, overlap float64) []row {
	var sure []row
	for _, r := range rows {
		if r.score < least {
			continue
		}
		w, h := float64(width), float64(height)
		x, y := max(0, min(r.box[0], w)), max(0, min(r.box[1], h))
		r.box = boxes.Box{x, y, x + max(0, min(r.box[2]-r.box[0], w-x)), y + max(0, min(r.box[3]-r.box[1], h-y))}
		sure = append(sure, r)
	}
	slices.SortStableFunc(sure, func(a, b row) int { return cmp.Compare(b.score, a.score) })
	var kept []row
	for _, r := range sure {
		if !slices.ContainsFunc(kept, func(k row) bool { return boxes.IoU(k.box, r.box) > overlap }) {
			kept = append(kept, r)
		}
	}
	return kept
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
