package main

import (
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
)

// GenEval's rules.

var genEvalOps = map[string]Op{
	"geneval.evaluate":          genEvalEvaluate,
	"geneval.iou":               func(c *Case) { c.Put("iou", rewards.PixelIoU(oneBox(c, "a"), oneBox(c, "b"))) },
	"geneval.relative_position": genEvalPosition,
	"geneval.soft_score":        genEvalSoft,
}

// genEvalRules are the published rules with a case's options, and upstream's slip.
func genEvalRules(c *Case) rewards.GenEvalRules {
	o, g := c.Sub("options"), rewards.GenEvalRules{}
	g.SetDefaults()
	g.UpstreamSlip = true
	g.Threshold = numberOr(o, "threshold", g.Threshold)
	g.CountingThreshold = numberOr(o, "counting_threshold", g.CountingThreshold)
	g.MostObjects = int(numberOr(o, "max_objects", float64(g.MostObjects)))
	g.MaxOverlap = numberOr(o, "max_overlap", g.MaxOverlap)
	g.PositionThreshold = numberOr(o, "position_threshold", g.PositionThreshold)
	return g
}

func genEvalPosition(c *Case) {
	r := genEvalRules(c).Relations(oneBox(c, "a"), oneBox(c, "b"))
	slices.Sort(r)
	c.Put("relations", append([]string{}, r...))
}

// genEvalWish reads a case's metadata.
func genEvalWish(c *Case) rewards.Wish {
	m := c.Sub("metadata")
	w := rewards.Wish{Tag: m.String("tag")}
	clauses := func(name string) (list []rewards.Clause) {
		if !m.Has(name) {
			return nil
		}
		for _, s := range m.Subs(name) {
			one := rewards.Clause{Class: s.String("class"), Count: s.Int("count"), Color: text(s, "color", "")}
			if s.Has("position") {
				pair, _ := s.Raw("position").([]any)
				if len(pair) != 2 {
					s.wrong("position", "a relation and a target")
					continue
				}
				relation, _ := pair[0].(string)
				target, _ := pair[1].(float64)
				one.Position = &rewards.Place{Relation: relation, Target: int(target)}
			}
			list = append(list, one)
		}
		return list
	}
	w.Include, w.Exclude = clauses("include"), clauses("exclude")
	return w
}

// genEvalFound reads a case's detections.
func genEvalFound(c *Case) []rewards.Detection {
	var found []rewards.Detection
	all, _ := c.Raw("detections").(map[string]any)
	for class := range all {
		d := c.Sub("detections").Sub(class)
		b, colors := d.Array("boxes"), d.Strings("colors")
		if len(b.Data) != 5*len(colors) {
			c.complain("%q has %d numbers and %d colours", class, len(b.Data), len(colors))
			return nil
		}
		for i, color := range colors {
			r := b.Data[5*i : 5*i+5]
			found = append(found, rewards.Detection{Class: class, Color: color, Box: boxes.Box(r[:4]), Score: r[4]})
		}
	}
	return found
}

func genEvalVerdict(c *Case) (rewards.Verdict, map[string][]rewards.Detection) {
	g, w := genEvalRules(c), genEvalWish(c)
	kept := g.Keep(genEvalFound(c), w.Tag)
	return must(g.Evaluate(kept, w)), kept
}

func genEvalEvaluate(c *Case) {
	v, kept := genEvalVerdict(c)
	counts := map[string]any{}
	for class, list := range kept {
		counts[class] = len(list)
	}
	c.Put("correct", v.Correct, "kept", counts)
}

func genEvalSoft(c *Case) {
	v, _ := genEvalVerdict(c)
	c.Put("correct", v.Correct, "strict_correct", v.Strict, "score", v.Soft)
}
