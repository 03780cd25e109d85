package answers

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: regions of a page with their kinds (HunyuanOCR, layout.py), in two forms:
//
//	text<hy-meta><layout>kind</layout><poly>(x,y),(x,y),(x,y),(x,y)</poly></hy-meta>     or quad for poly
//	[{"layout_type": "kind", "bbox": "[[x,y],[x,y],[x,y],[x,y]]", "text": "..."}]
//
// A region of the reply takes the region of its kind, which no other has taken, with the largest overlap, if that is
// 0.5: the intersection of the upright boxes over the union of the areas of the outlines. Where no region of the truth
// has a text, the score is F1 of regions; else it is that of spotting, of texts. Names of kinds are brought to one
// spelling. Upstream reads lists of points as Python; here they are JSON. A truth without regions has no score, of
// which upstream makes 0. Invariants (tests): recorded values of upstream.

// A region is a part of a page.
type region struct {
	text, kind string
	points     [][2]float64
}

var (
	regionQuad  = regexp.MustCompile(`([^<]*?)<hy-meta><layout>([^<]+)</layout><quad>([^<]+)</quad></hy-meta>`)
	regionPoly  = regexp.MustCompile(`([^<]*?)<hy-meta><layout>([^<]+)</layout><poly>([^<]+)</poly></hy-meta>`)
	regionPoint = regexp.MustCompile(`\((\p{Nd}+),(\p{Nd}+)\)`)
)

// regions are those of a text; none where it is in no form.
func regions(text string) (list []region) {
	has := func(tag string) bool {
		return strings.Contains(text, "<"+tag+">") && strings.Contains(text, "</"+tag+">")
	}
	add := func(said, kind, place string) {
		if points := pointsOf(place); len(points) >= 4 {
			list = append(list, region{pytext.Strip(said), pytext.Strip(kind), points})
		}
	}
	if has("hy-meta") && (has("poly") || has("quad")) {
		form := regionPoly
		if has("quad") {
			form = regionQuad
		}
		for _, m := range form.FindAllStringSubmatch(text, -1) {
			add(m[1], m[2], m[3])
		}
		return list
	}
	if !strings.HasPrefix(pytext.Strip(text), "[") || !strings.Contains(text, "layout_type") || !strings.Contains(text, "bbox") {
		return nil
	}
	v, err := pytext.JSON(text)
	entries, _ := v.([]any)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		o, _ := e.(pytext.Object)
		kind, _ := o["layout_type"].(string)
		place, _ := o["bbox"].(string)
		said, _ := o["text"].(string)
		if pytext.Strip(kind) != "" && pytext.Strip(place) != "" {
			add(said, kind, place)
		}
	}
	return list
}

// pointsOf reads (x,y),(x,y) or [[x,y],[x,y]].
func pointsOf(text string) (points [][2]float64) {
	text = pytext.Strip(text)
	if strings.HasPrefix(text, "(") && strings.Contains(text, "),") {
		for _, m := range regionPoint.FindAllStringSubmatch(text, -1) {
			b := wholeBox([]string{m[1], m[2], "0", "0"})
			points = append(points, [2]float64{b[0], b[1]})
		}
		return points
	}
	v, err := pytext.JSON(text)
	list, _ := v.([]any)
	if err != nil {
		return nil
	}
	for _, e := range list {
		pair, _ := e.([]any)
		if len(pair) < 2 {
			return nil
		}
		x, one := numeric(pair[0])
		y, two := numeric(pair[1])
		if !one || !two || math.IsNaN(x+y) || math.IsInf(x+y, 0) {
			return nil
		}
		points = append(points, [2]float64{x, y})
	}
	return points
}

// overlap is that of two outlines of four points; of others it is 0.
func (r region) overlap(o region) float64 {
	if len(r.points) != 4 || len(o.points) != 4 {
		return 0
	}
	upright := func(points [][2]float64) (b boxes.Box) {
		b = boxes.Box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
		for _, p := range points {
			b = boxes.Box{min(b[0], p[0]), min(b[1], p[1]), max(b[2], p[0]), max(b[3], p[1])}
		}
		return b
	}
	area := func(points [][2]float64) float64 {
		sum := 0.0
		for i, p := range points {
			q := points[(i+1)%4]
			sum += float64(p[0]*q[1]) - float64(q[0]*p[1])
		}
		return float64(0.5 * math.Abs(sum))
	}
	both, _ := boxes.Overlap(upright(r.points), upright(o.points)) // the union is that of the outlines
	if all := area(r.points) + area(o.points) - both; all != 0 {
		return both / all
	}
	return 0
}

// kindOf is a kind in one spelling.
func kindOf(kind string) string {
	kind = strings.NewReplacer(" ", "_", "-", "_").Replace(pytext.Strip(pytext.Lower(kind)))
	if strings.HasPrefix(kind, "table_of") {
		return "table_of_contents"
	}
	for to, names := range map[string][]string{
		"para_title": {"paratitle"}, "table_of_contents": {"tableofcontents"}, "table_title": {"tabletitle"},
		"figure_title": {"figuretitle", "chart_title", "charttitle"}, "figure": {"chart"},
		"paragraph": {"paragraph_span", "paragraphspan", "para"}, "section_title": {"sectiontitle", "title", "heading"},
		"header": {"page_header"}, "footer": {"page_footer"},
	} {
		if slices.Contains(names, kind) {
			return to
		}
	}
	return kind
}

// DocumentLayout judges the regions of a page.
func DocumentLayout(reply, truth string) (rewards.Score, error) {
	found, want := regions(reply), regions(truth)
	if len(want) == 0 {
		return rewards.Score{}, errors.New("meta.answer has no regions of a page")
	}
	sum, count, right := 0.0, 0, 0
	taken := make([]bool, len(want))
	for _, f := range found {
		best, at := -1.0, -1
		for j, w := range want {
			if over := f.overlap(w); !taken[j] && kindOf(f.kind) == kindOf(w.kind) && over > best {
				best, at = over, j
			}
		}
		if best >= 0.5 {
			taken[at] = true
			right++
			sum += apart(normalised(f.text), normalised(want[at].text))
		} else {
			sum += apart(normalised(f.text), "")
		}
		count++
	}
	for j, w := range want {
		if !taken[j] {
			sum += apart(normalised(w.text), "")
			count++
		}
	}
	if slices.ContainsFunc(want, func(r region) bool { return pytext.Strip(r.text) != "" }) {
		return judged(lessApart(sum, count), "regions", reply), nil
	}
	value := 0.0
	if right > 0 {
		precision, recall := float64(right)/float64(len(found)), float64(right)/float64(len(want))
		value = float64(2*precision*recall) / (precision + recall)
	}
	return judged(snapped(value), "regions", reply), nil
}
