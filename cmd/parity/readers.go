package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards/scorers"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/ppocr"
)

// Text readers around their networks, and rows of detectors.

var readerOps = map[string]Op{
	"eyes.db_boxes":           dbBoxes,
	"eyes.sorted_boxes":       sortedBoxes,
	"eyes.ocr_sizes":          ocrSizes,
	"eyes.perspective_matrix": perspectiveMatrix,
	"eyes.perspective_crop":   perspectiveCrop,
	"eyes.ctc_decode":         ctcDecode,
	"eyes.yolo_boxes":         yoloBoxes,
}

// ocrPicture opens a picture of the folder ocr beside the cases.
func ocrPicture(c *Case, name string) *vision.Image {
	return caseImage(c, "ocr/"+c.String(name))
}

func quadOf(v []float64) (q ppocr.Quad) {
	for i := range q {
		q[i] = ppocr.Point{X: v[2*i], Y: v[2*i+1]}
	}
	return q
}

func quads(list []ppocr.Quad) Array {
	a := Array{Shape: []int{len(list), 4, 2}}
	for _, q := range list {
		for _, p := range q {
			a.Data = append(a.Data, p.X, p.Y)
		}
	}
	return a
}

func cornerRows(q ppocr.Quad) (rows [][]float64) {
	for _, p := range q {
		rows = append(rows, []float64{p.X, p.Y})
	}
	return rows
}

func dbBoxes(c *Case) {
	o := c.Sub("options")
	b := ppocr.Boxes{Threshold: o.Float("thresh"), Score: o.Float("box_thresh"), Most: o.Int("max_candidates"), Unclip: o.Float("unclip_ratio"),
		Dilate: o.Bool("use_dilation"), Slow: o.String("score_mode") == "slow"}
	m := ocrPicture(c, "map")
	values := make([]float32, m.Width*m.Height)
	for i := range values {
		values[i] = float32(m.Pix[3*i]) / 255
	}
	size := c.Ints("picture")
	found := b.Of(values, m.Width, m.Height, size[1], size[0])
	order := ppocr.InOrder(each(found, func(f ppocr.Found) ppocr.Quad { return f.Box }))
	scores := each(order, func(q ppocr.Quad) float64 {
		return found[slices.IndexFunc(found, func(f ppocr.Found) bool { return f.Box == q })].Score
	})
	all, count := b.Steps(values, m.Width, m.Height, math.MaxInt)
	key := func(s ppocr.Step) [3]float64 {
		top, left := math.Inf(1), math.Inf(1)
		for _, p := range s.Box {
			top, left = min(top, p.Y), min(left, p.X)
		}
		return [3]float64{math.RoundToEven(top), math.RoundToEven(left), s.Side}
	}
	slices.SortStableFunc(all, func(a, b ppocr.Step) int {
		x, y := key(a), key(b)
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(x[2], y[2]))
	})
	steps := each(all, func(s ppocr.Step) map[string]any {
		row := map[string]any{"quad": cornerRows(s.Box), "side": s.Side, "score": s.Score, "distance": s.Distance}
		if s.Enough {
			row["unclipped"], row["unclipped_side"] = cornerRows(s.Grown), s.GrownSide
		}
		return row
	})
	c.Put("boxes", quads(order), "scores", scores, "contours", count, "steps", steps)
}

func sortedBoxes(c *Case) {
	var boxes []ppocr.Quad
	for row := range slices.Chunk(c.Floats("boxes"), 8) {
		boxes = append(boxes, quadOf(row))
	}
	c.Put("boxes", quads(ppocr.InOrder(boxes)))
}

func ocrSizes(c *Case) {
	size := c.Ints("picture")
	w, h, top := ppocr.Fitted(size[1], size[0])
	r := ppocr.Rules{Limit: c.Int("limit"), Longest: c.String("limit_type") == "max"}
	dw, dh := r.Sides(w, h+2*top)
	var detector any
	if dw > 0 && dh > 0 {
		detector = []int{dh, dw}
	}
	c.Put("within_bounds", []int{h, w}, "ratio_h", float64(size[0])/float64(h), "ratio_w", float64(size[1])/float64(w), "padded", []int{h + 2*top, w}, "padding_top", top, "detector", detector)
}

func perspectiveMatrix(c *Case) {
	_ = c.String("image") // whose pixels the matrix does not depend on
	q := quadOf(c.Floats("box"))
	w, h := q.Size()
	m := ppocr.Matrix(q, ppocr.Quad{{X: 0, Y: 0}, {X: float64(w), Y: 0}, {X: float64(w), Y: float64(h)}, {X: 0, Y: float64(h)}})
	c.Put("size", []int{w, h}, "turned", float64(h)/float64(w) >= 1.5, "matrix", Array{Shape: []int{3, 3}, Data: m[:]})
}

func perspectiveCrop(c *Case) {
	m := ppocr.Crop(ocrPicture(c, "image"), quadOf(c.Floats("box")))
	c.Put("crop", Array{Shape: []int{m.Height, m.Width, 3}, Data: to[float64](m.Pix)})
}

func ctcDecode(c *Case) {
	text, score := ppocr.Decode(c.Ints("ids"), to[float32](c.Floats("probabilities")), c.Strings("characters"))
	c.Put("text", text, "score", score)
}

func yoloBoxes(c *Case) {
	size, rows := c.Ints("picture"), c.Array("rows")
	found := must(scorers.YOLO(rows.Data, rows.Shape[1], size[0], size[1], 320, 0.25, 0.45))
	c.Put("found", each(found, func(f scorers.Found) map[string]any {
		b := f.Box
		x, y, w, h := float64(int(b[0])), float64(int(b[1])), float64(int(b[2]-b[0])), float64(int(b[3]-b[1]))
		return map[string]any{"class": f.Class, "score": f.Score, "box": []float64{x, y, w, h}}
	}))
}
