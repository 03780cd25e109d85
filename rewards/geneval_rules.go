package rewards

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
)

// The rules of GenEval (geneval.go) over boxes that were found.

// Keep chooses the boxes that count, by class, best first.
func (g GenEvalRules) Keep(found []Detection, tag string) map[string][]Detection {
	threshold := g.Threshold
	if tag == "counting" {
		threshold = g.CountingThreshold
	}
	classes := map[string][]Detection{}
	for _, d := range found {
		if d.Score > threshold {
			classes[d.Class] = append(classes[d.Class], d)
		}
	}
	for class, list := range classes {
		slices.Reverse(list) // of equals the later is first, as numpy's order turned round has it
		slices.SortStableFunc(list, func(a, b Detection) int {
			switch {
			case a.Score > b.Score:
				return -1
			case a.Score < b.Score:
				return 1
			}
			return 0
		})
		list = list[:min(len(list), max(0, g.MostObjects))]
		var kept []Detection
		for _, d := range list {
			if g.MaxOverlap == 1 || !slices.ContainsFunc(kept, func(k Detection) bool { return !(PixelIoU(k.Box, d.Box) < g.MaxOverlap) }) {
				kept = append(kept, d)
			}
		}
		classes[class] = kept
	}
	return classes
}

// PixelIoU is the overlap of boxes whose corners are pixels that belong to them.
func PixelIoU(a, b boxes.Box) float64 {
	area := func(b boxes.Box) float64 { return float64(max(b[2]-b[0]+1, 0) * max(b[3]-b[1]+1, 0)) }
	both := area(boxes.Box{max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])})
	if either := area(a) + area(b) - both; either != 0 {
		return both / either
	}
	return 0
}

// Relations says where a is, seen from b: "left of", "right of", "above", "below".
func (g GenEvalRules) Relations(a, b boxes.Box) []string {
	ax, ay := a.Centre()
	bx, by := b.Centre()
	shrunk := func(offset, sizes float64) float64 {
		return math.Copysign(max(math.Abs(offset)-float64(g.PositionThreshold*sizes), 0), offset)
	}
	dx := shrunk(ax-bx, math.Abs(a[2]-a[0])+math.Abs(b[2]-b[0]))
	dy := shrunk(ay-by, math.Abs(a[3]-a[1])+math.Abs(b[3]-b[1]))
	if math.Abs(dx) < 1e-3 && math.Abs(dy) < 1e-3 {
		return nil
	}
	length := math.Sqrt(float64((ax-bx)*(ax-bx)) + float64((ay-by)*(ay-by)))
	var out []string
	for _, r := range []struct {
		name  string
		holds bool
	}{{"left of", dx/length < -0.5}, {"right of", dx/length > 0.5}, {"above", dy/length < -0.5}, {"below", dy/length > 0.5}} {
		if r.holds {
			out = append(out, r.name)
		}
	}
	return out
}

// Evaluate holds kept boxes to a wish.
func (g GenEvalRules) Evaluate(kept map[string][]Detection, w Wish) (Verdict, error) {
	v := Verdict{Correct: true, Strict: true}
	var soft []float64
	groups := [2][][]Detection{} // of correct and strict: what each clause matched, nil for nothing
	for i, c := range w.Include {
		if c.Count <= 0 {
			return v, fmt.Errorf("include[%d] asks for %d of %q: a count is at least 1", i, c.Count, c.Class)
		}
		if p := c.Position; p != nil && (p.Target < 0 || p.Target >= i) {
			return v, fmt.Errorf("include[%d] of %q has its place beside clause %d, which does not come before it", i, c.Class, p.Target)
		}
		all := kept[c.Class]
		best := all[:min(len(all), c.Count)]

		matched, why := g.clause(c, best, len(best) >= c.Count, groups[0])
		v.Correct = v.Correct && matched != nil
		v.Reasons = append(v.Reasons, why...)
		groups[0] = append(groups[0], matched)

		matched, why = g.clause(c, all, len(all) == c.Count, groups[1])
		v.Strict = v.Strict && matched != nil
		if len(why) > 0 && groups[0][i] != nil {
			v.Reasons = append(v.Reasons, why...)
		}
		soft = append(soft, g.soft(c, all, groups[1])...)
		groups[1] = append(groups[1], matched)
	}
	for _, c := range w.Exclude {
		if n := len(kept[c.Class]); n >= c.Count {
			v.Correct = false
			v.Reasons = append(v.Reasons, fmt.Sprintf("expected %s<%d, found %d", c.Class, c.Count, n))
		}
	}
	for _, x := range soft {
		v.Soft += x
	}
	v.Soft /= max(1, float64(len(soft)))
	return v, nil
}

// clause is what a clause matches, nil if it is not met; enough says whether the count is right.
func (g GenEvalRules) clause(c Clause, found []Detection, enough bool, groups [][]Detection) (matched []Detection, why []string) {
	if !enough {
		return nil, []string{fmt.Sprintf("expected %d %s, found %d", c.Count, c.Class, len(found))}
	}
	if c.Color != "" {
		if n := colored(found, c.Color); n < c.Count {
			return nil, []string{fmt.Sprintf("expected %d %s %s, found %d", c.Count, c.Color, c.Class, n)}
		}
	}
	if c.Position == nil {
		return found, nil
	}
	if at := g.misplaced(*c.Position, found, groups); at != "" {
		return nil, []string{fmt.Sprintf("expected %s %s target, %s", c.Class, c.Position.Relation, at)}
	}
	return found, nil
}

func colored(found []Detection, color string) int {
	n := 0
	for _, d := range found {
		if d.Color == color {
			n++
		}
	}
	return n
}

// misplaced says what is wrong with objects' places, if something is.
func (g GenEvalRules) misplaced(p Place, found []Detection, groups [][]Detection) string {
	if groups[p.Target] == nil {
		return "there is no target"
	}
	for _, d := range found {
		for _, t := range groups[p.Target] {
			if r := g.Relations(d.Box, t.Box); !slices.Contains(r, p.Relation) {
				return "found " + strings.Join(append(r, "nothing"), " and ")
			}
		}
	}
	return ""
}

// soft are the parts that a clause adds to the mean.
func (g GenEvalRules) soft(c Clause, found []Detection, groups [][]Detection) []float64 {
	near := func(n int) float64 { return 1 - math.Abs(float64(c.Count-n))/float64(c.Count) }
	parts := []float64{near(len(found))}
	if len(found) != c.Count {
		if c.Color != "" || c.Position != nil {
			parts = append(parts, 0)
		}
		return parts
	}
	if c.Color != "" {
		n := colored(found, c.Color)
		parts = append(parts, near(n))
		if n != c.Count {
			return parts
		}
	}
	if c.Position == nil {
		return parts
	}
	switch missed := g.misplaced(*c.Position, found, groups) != ""; {
	case !missed:
		return append(parts, 1)
	case groups[c.Position.Target] == nil || !g.UpstreamSlip:
		return append(parts, 0)
	}
	return append(parts, 0, 1)
}
