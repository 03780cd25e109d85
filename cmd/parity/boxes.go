package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
)

// Boxes: overlaps, pairs, average precision, and rewards of lists of boxes.

var boxOps = map[string]Op{
	"boxes.assign":                assignRows,
	"boxes.ciou":                  overlaps,
	"boxes.coco_ap":               averagePrecision,
	"boxes.convert":               convertBoxes,
	"boxes.diou":                  overlaps,
	"boxes.giou":                  overlaps,
	"boxes.iou":                   overlaps,
	"boxes.layout_reward":         matchedLayout,
	"boxes.nms":                   suppressBoxes,
	"boxes.visual_rft":            positionLists,
	"boxes.vlmr1_detection_score": weightedDetection,
	"boxes.vlmr1_iou":             func(c *Case) { c.Put("iou", answers.PixelOverlap(oneBox(c, "a"), oneBox(c, "b"))) },
	"boxes.vlmr1_map_reward":      mapReward,
}

// boxList reads an input [n, 4].
func boxList(c *Case, name string) []boxes.Box {
	a := c.Array(name)
	if len(a.Data)%4 != 0 {
		c.wrong(name, "an array of boxes")
		return nil
	}
	return times(len(a.Data)/4, func(i int) boxes.Box { return boxes.Box(a.Data[4*i : 4*i+4]) })
}

// oneBox reads an input of four numbers.
func oneBox(c *Case, name string) boxes.Box {
	if list := boxList(c, name); len(list) == 1 {
		return list[0]
	}
	c.wrong(name, "a box")
	return boxes.Box{}
}

// overlaps gives NaN, as torchvision does, where ours is 0: where nothing is covered, or a box has
// no shape.
func overlaps(c *Case) {
	kind := c.Op[len("boxes."):]
	of := map[string]func(a, b boxes.Box) float64{"iou": boxes.IoU, "giou": boxes.GIoU, "diou": boxes.DIoU, "ciou": boxes.CIoU}[kind]
	shapeless := func(b boxes.Box) bool { return b[0] == b[2] && b[1] == b[3] }
	a, b := boxList(c, "a"), boxList(c, "b")
	out := Array{Shape: []int{len(a), len(b)}}
	for _, x := range a {
		for _, y := range b {
			v := of(x, y)
			if _, either := boxes.Overlap(x, y); either == 0 || kind == "ciou" && (shapeless(x) || shapeless(y)) {
				v = math.NaN()
			}
			out.Data = append(out.Data, v)
		}
	}
	c.Put(kind, out)
}

func convertBoxes(c *Case) {
	out := Array{Shape: c.Array("boxes").Shape}
	for _, b := range boxList(c, "boxes") {
		b := must(boxes.Convert(b, c.String("from"), c.String("to")))
		out.Data = append(out.Data, b[:]...)
	}
	c.Put("boxes", out)
}

func suppressBoxes(c *Case) {
	c.Put("keep", boxes.Suppress(boxList(c, "boxes"), c.Floats("scores"), c.Float("threshold")))
}

func assignRows(c *Case) {
	score := samples(c.Array("score"))
	rows, columns := must2(boxes.Assign(score, c.Bool("maximize")))
	total := 0.0
	for k, i := range rows {
		total += score[i][columns[k]]
	}
	c.Put("row", rows, "col", columns, "total", total)
}

func matchedLayout(c *Case) {
	m := boxes.Matching{Score: c.String("score"), Threshold: c.Float("threshold"), DivideBy: c.String("divide_by")}
	labelled := func(name string) []boxes.Labelled {
		list, labels := boxList(c, name), c.Strings(name+"_label")
		if len(list) != len(labels) {
			c.complain("%d boxes have %d labels", len(list), len(labels))
			return nil
		}
		out := times(len(list), func(i int) boxes.Labelled { return boxes.Labelled{Box: list[i], Label: labels[i]} })
		return out
	}
	reward, pairs := must2(m.Match(labelled("pred"), labelled("want")))
	list := []any{}
	for _, p := range pairs {
		list = append(list, []any{p.Found, p.Want, p.Score})
	}
	c.Put("reward", reward, "pairs", list)
}

func averagePrecision(c *Case) {
	var truth []boxes.Truth
	for _, r := range sevens(c, "truth") {
		truth = append(truth, boxes.Truth{Image: int(r[0]), Class: int(r[1]), Rect: boxes.Rect{X: r[2], Y: r[3], W: r[4], H: r[5]}, Crowd: r[6] != 0})
	}
	var found []boxes.Found
	for _, r := range sevens(c, "found") {
		found = append(found, boxes.Found{Image: int(r[0]), Class: int(r[1]), Rect: boxes.Rect{X: r[2], Y: r[3], W: r[4], H: r[5]}, Score: r[6]})
	}
	classes := c.Int("classes")
	if classes < 0 || classes > 1e5 {
		failf("%d classes", classes)
	}
	p := boxes.AveragePrecision(truth, found, classes)
	c.Put("stats", []float64{p.AP, p.AP50, p.AP75, p.APSmall, p.APMedium, p.APLarge, p.AR1, p.AR10, p.AR100, p.ARSmall, p.ARMedium, p.ARLarge})
	c.Put("ap_per_class", p.PerClass)
}

func sevens(c *Case, name string) [][]float64 {
	a := c.Array(name)
	if len(a.Data)%7 != 0 {
		c.wrong(name, "rows of seven numbers")
		return nil
	}
	var list [][]float64
	for i := 0; i < len(a.Data); i += 7 {
		list = append(list, a.Data[i:i+7])
	}
	return list
}

func weightedDetection(c *Case) {
	c.Put("score", must(answers.Weighted(c.String("content"), c.String("solution"))).Value)
}

func mapReward(c *Case) {
	m := answers.MAP{Fifty: c.Int("score_type") == 1, Length: c.Bool("length_reward")}
	c.Put("reward", must(m.Rule(c.String("content"), c.String("solution"))).Value)
}

func positionLists(c *Case) {
	p := must(answers.JudgePositions(c.String("answer"), c.String("solution")))
	matches := []any{}
	for _, m := range p.Matches {
		matches = append(matches, []float64{m.IoU, m.Confidence})
	}
	c.Put("parsed", p.Found, "matches", matches, "iou_reward", p.IoU, "iou_reward_v1", p.Mean)
	c.Put("confidence_reward", p.Sure)
}
