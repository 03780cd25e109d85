package neural

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
)

// Card: GenEval (djghosh13/geneval) asks a detector whether the objects of a prompt are there, as
// many as asked for, of the right colour, in the right place:
//
//	kept     boxes surer than 0.3 (0.9 for tag "counting"), at most 16 a class, best first; with
//	         MaxOverlap below 1, without those that overlap a better one that much
//	include  at least count of a class; colour and position are asked of the count best
//	exclude  fewer than count
//
// The reward of flow_grpo's server (yifan123/reward-server) is softer and stricter: strict wants
// exactly count, and the soft score is the mean of 1 - |count - found|/count and, where the
// count is right, the same of colours, and 1 where the position holds. It leaves exclude out;
// it can be negative, three dogs for one being -1. With a missed position upstream adds a 0 and
// a 1, so that no position costs more than half: UpstreamSlip does as it does, without it a
// missed position adds a 0.
//
// Boxes overlap as pixels do, areas with +1 on each side. Relations: the offset of the centres,
// shrunk along each axis by a tenth of both sizes, over the length of the whole offset; beyond
// 0.5 it holds, so a diagonal gives two.
// Invariants (tests): a wish that is met is correct and 1; strict implies correct but for
// exclude.
type GenEval struct {
	Detector rewards.Detector
	Colors   func(ctx context.Context, m *vision.Image, d []rewards.Detection) ([]string, error) // nil: as the detector says
	GenEvalRules
}

// GenEvalRules are the numbers of GenEval.
type GenEvalRules struct {
	Value             string  `toml:"value" enum:"soft,strict,correct" doc:"what the reward is: the soft score, or 1 where the verdict is strict, or correct"`
	Threshold         float64 `toml:"threshold" range:"[0,1]" doc:"boxes must be surer than this"`
	CountingThreshold float64 `toml:"counting_threshold" range:"[0,1]" doc:"the same of prompts with the tag counting"`
	MostObjects       int     `toml:"most_objects" range:"[1,1e6]" doc:"boxes of a class that are looked at, the surest"`
	MaxOverlap        float64 `toml:"max_overlap" range:"[0,1]" doc:"boxes that overlap a surer one of their class this much are left out; 1: none"`
	PositionThreshold float64 `toml:"position_threshold" range:"[0,1]" doc:"share of both sizes by which an offset is shrunk"`
	UpstreamSlip      bool    `toml:"upstream_slip" doc:"a missed position adds a 0 and a 1, as in flow_grpo's server"`
	CLIP              string  `toml:"clip" doc:"folder of the CLIP that names colours for a detector at path; empty: the colour of most of an object's pixels"`
}

// SetDefaults are the published numbers.
func (g *GenEvalRules) SetDefaults() {
	*g = GenEvalRules{Value: "soft", Threshold: 0.3, CountingThreshold: 0.9, MostObjects: 16, MaxOverlap: 1, PositionThreshold: 0.1}
}

// A Wish is a prompt's metadata in GenEval's form.
type Wish struct {
	Tag     string   `json:"tag"`
	Include []Clause `json:"include"`
	Exclude []Clause `json:"exclude"`
}

// A Clause asks for a number of objects of a class.
type Clause struct {
	Class    string `json:"class"`
	Count    int    `json:"count"`
	Color    string `json:"color"`    // "": any
	Position *Place `json:"position"` // nil: any
}

// A Place is a relation to the objects of an earlier clause: ["left of", 0].
type Place struct {
	Relation string
	Target   int // number of the clause
}

// UnmarshalJSON reads the pair.
func (p *Place) UnmarshalJSON(raw []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("a position reads like [\"left of\", 0], not %.80s", raw)
	}
	if err := json.Unmarshal(pair[0], &p.Relation); err != nil {
		return fmt.Errorf("a position's relation: %w", err)
	}
	if err := json.Unmarshal(pair[1], &p.Target); err != nil {
		return fmt.Errorf("a position's target: %w", err)
	}
	return nil
}

// labels are the classes that a wish names.
func (w Wish) labels() (labels []string) {
	for _, c := range slices.Concat(w.Include, w.Exclude) {
		if !slices.Contains(labels, c.Class) {
			labels = append(labels, c.Class)
		}
	}
	return labels
}

// A GenEvalResult is the judgement of a picture by its prompt.
type GenEvalResult struct {
	Correct bool
	Strict  bool // exactly the counts asked for
	Soft    float64
	Reasons []string // the failed clauses
	// Published are the reasons in the words of GenEval, and of flow_grpo's server.
	Published [2]string
}

// Score is the soft score of a picture against the prompt's meta.geneval.
func (g GenEval) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	var w Wish
	if err := item.Meta.Read("geneval", &w); err != nil {
		return rewards.Score{}, err
	}
	if item.Image == nil {
		return rewards.Score{}, rewards.ErrNoImage
	}
	found, err := g.Detector.Detect(ctx, item.Image, w.labels())
	if err != nil {
		return rewards.Score{}, err
	}
	kept := g.Keep(found, w.Tag)
	if g.Colors != nil {
		for class, list := range kept {
			colors, err := g.Colors(ctx, item.Image, list)
			if err != nil {
				return rewards.Score{}, fmt.Errorf("naming the colours of %d objects %q: %w", len(list), class, err)
			}
			if len(colors) != len(list) {
				return rewards.Score{}, fmt.Errorf("%d objects %q have %d colours", len(list), class, len(colors))
			}
			for i := range list {
				list[i].Color = colors[i]
			}
		}
	}
	v, err := g.Evaluate(kept, w)
	if err != nil {
		return rewards.Score{}, err
	}
	s := rewards.Score{Value: v.Soft, Parts: map[string]float64{"soft": v.Soft, "correct": one(v.Correct), "strict": one(v.Strict)}}
	if part, ok := s.Parts[g.Value]; ok {
		s.Value = part
	}
	for _, why := range v.Reasons {
		s.Because("wrong", "%s", why)
	}
	for _, d := range found {
		s.Evidence = append(s.Evidence, evidence.Reason{What: "found", Text: strings.TrimSpace(d.Color + " " + d.Class), Box: &d.Box, Value: d.Score})
	}
	return s, nil
}

// Keep chooses the boxes that count, by class, best first.
func (g GenEvalRules) Keep(found []rewards.Detection, tag string) map[string][]rewards.Detection {
	threshold := g.Threshold
	if tag == "counting" {
		threshold = g.CountingThreshold
	}
	classes := map[string][]rewards.Detection{}
	for _, d := range found {
		if d.Score > threshold {
			classes[d.Class] = append(classes[d.Class], d)
		}
	}
	for class, list := range classes {
		slices.Reverse(list) // of equals the later is first, as numpy's order turned round has it
		slices.SortStableFunc(list, func(a, b rewards.Detection) int {
			switch {
			case a.Score > b.Score:
				return -1
			case a.Score < b.Score:
				return 1
			}
			return 0
		})
		list = list[:min(len(list), max(0, g.MostObjects))]
		var kept []rewards.Detection
		for _, d := range list {
			if g.MaxOverlap == 1 || !slices.ContainsFunc(kept, func(k rewards.Detection) bool { return !(PixelIoU(k.Box, d.Box) < g.MaxOverlap) }) {
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
func (g GenEvalRules) Evaluate(kept map[string][]rewards.Detection, w Wish) (GenEvalResult, error) {
	v := GenEvalResult{Correct: true, Strict: true}
	var soft []float64
	var said [2][]string
	groups := [2][][]rewards.Detection{} // of correct and strict: the matches of each clause, nil for nothing
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
		said[0] = append(said[0], g.published(c, best, ">=", groups[0])...)
		v.Correct = v.Correct && matched != nil
		v.Reasons = append(v.Reasons, why...)
		groups[0] = append(groups[0], matched)

		matched, why = g.clause(c, all, len(all) == c.Count, groups[1])
		said[1] = append(said[1], g.published(c, all, "==", groups[1])...)
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
			reason := fmt.Sprintf("expected %s<%d, found %d", c.Class, c.Count, n)
			v.Reasons, said[0] = append(v.Reasons, reason), append(said[0], reason)
		}
	}
	for i, lines := range said {
		v.Published[i] = strings.Join(lines, "\n")
	}
	for _, x := range soft {
		v.Soft += x
	}
	v.Soft /= max(1, float64(len(soft)))
	return v, nil
}

// clause returns the matches of a clause, nil if it is not met; enough says whether the count is right.
func (g GenEvalRules) clause(c Clause, found []rewards.Detection, enough bool, groups [][]rewards.Detection) (matched []rewards.Detection, why []string) {
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

// published are the lines that GenEval, or flow_grpo's server, prints of a failed clause: sign is >= or ==.
func (g GenEvalRules) published(c Clause, found []rewards.Detection, sign string, groups [][]rewards.Detection) []string {
	if sign == ">=" && len(found) < c.Count || sign == "==" && len(found) != c.Count {
		return []string{fmt.Sprintf("expected %s%s%d, found %d", c.Class, sign, c.Count, len(found))}
	}
	if n := colored(found, c.Color); c.Color != "" && n < c.Count {
		var all []string
		for _, name := range ColorNames() {
			if k := colored(found, name); k > 0 {
				all = append(all, fmt.Sprintf("%d %s", k, name))
			}
		}
		return []string{fmt.Sprintf("expected %s %s>=%d, found %d %s; and %s", c.Color, c.Class, c.Count, n, c.Color, strings.Join(all, ", "))}
	}
	if c.Position == nil {
		return nil
	}
	if groups[c.Position.Target] == nil {
		return []string{fmt.Sprintf("no target for %s to be %s", c.Class, c.Position.Relation)}
	}
	for _, d := range found {
		for _, t := range groups[c.Position.Target] {
			if r := g.Relations(d.Box, t.Box); !slices.Contains(r, c.Position.Relation) {
				return []string{fmt.Sprintf("expected %s %s target, found %s target", c.Class, c.Position.Relation, strings.Join(r, " and "))}
			}
		}
	}
	return nil
}

func colored(found []rewards.Detection, color string) int {
	n := 0
	for _, d := range found {
		if d.Color == color {
			n++
		}
	}
	return n
}

// misplaced names the wrong relation between objects' places, "" if all hold.
func (g GenEvalRules) misplaced(p Place, found []rewards.Detection, groups [][]rewards.Detection) string {
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
func (g GenEvalRules) soft(c Clause, found []rewards.Detection, groups [][]rewards.Detection) []float64 {
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

// Card: GenEval's colours (djghosh13/geneval, ImageCrops and color_classification). Outside an
// object's mask the picture becomes gray; its box is cut out, corners rounded half to even;
// CLIP says which colour's sentences it is nearest to:
//
//	class vector   the unit vector of the mean of the unit vectors of "a photo of a C X",
//	               "a photo of a C-colored X" and "a photo of a C object", for class X
//	logits         100 <picture, class vector>, and the largest is the colour
//
// Upstream runs open_clip's ViT-L/14 of OpenAI. The classifier of a class is computed once
// and kept by the towers' memory of texts. Held to neural.geneval_color.
type Colors struct {
	Towers Towers
	// Background is painted outside masks: "#999" in upstream, any "#rgb" or "#rrggbb", or
	// "original" for none. "" is "#999".
	Background string
	WholeImage bool // nothing is cut out (upstream's crop=0)
}

// ColorNames are GenEval's colours.
func ColorNames() []string {
	return []string{"red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white"}
}

var colorSentences = []string{"a photo of a %s %s", "a photo of a %s-colored %s", "a photo of a %s object"}

// An Object is something in a picture.
type Object struct {
	Box  boxes.Box
	Mask []bool // of the whole picture, row by row; nil without a mask
}

// A Coloring is the classifier's answer about an object.
type Coloring struct {
	Name   string
	Logits []float64 // one a color
}

// Of names the colours of objects of one class.
func (c Colors) Of(ctx context.Context, m *vision.Image, class string, objects []Object) ([]Coloring, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	classes, err := c.Classifier(ctx, class)
	if err != nil {
		return nil, err
	}
	crops, err := c.Crops(m, objects)
	if err != nil {
		return nil, err
	}
	vectors, err := c.Towers.Images(ctx, crops)
	if err != nil {
		return nil, err
	}
	out := make([]Coloring, len(vectors))
	names := ColorNames()
	for i, x := range vectors {
		u, _, err := unit(x)
		if err != nil {
			return nil, err
		}
		best := 0
		for k, v := range classes {
			out[i].Logits = append(out[i].Logits, 100*dot(u, v))
			if out[i].Logits[k] > out[i].Logits[best] {
				best = k
			}
		}
		out[i].Name = names[best]
	}
	return out, nil
}

// Classifier is a unit vector a colour, for objects of a class.
func (c Colors) Classifier(ctx context.Context, class string) ([][]float64, error) {
	var texts []string
	for _, name := range ColorNames() {
		for _, s := range colorSentences {
			if strings.Count(s, "%s") == 2 {
				texts = append(texts, fmt.Sprintf(s, name, class))
			} else {
				texts = append(texts, fmt.Sprintf(s, name))
			}
		}
	}
	vectors, err := c.Towers.Texts(ctx, texts)
	if err != nil {
		return nil, err
	}
	if vectors, err = units(vectors); err != nil {
		return nil, err
	}
	var classes [][]float64
	for n := len(colorSentences); len(vectors) > 0; vectors = vectors[n:] {
		mean := make([]float64, len(vectors[0]))
		for _, v := range vectors[:n] {
			for i, x := range v {
				mean[i] += x / float64(n)
			}
		}
		u, _, err := unit(mean)
		if err != nil {
			return nil, err
		}
		classes = append(classes, u)
	}
	return classes, nil
}

// Crops are the pictures that the classifier sees.
func (c Colors) Crops(m *vision.Image, objects []Object) ([]*vision.Image, error) {
	paper, painted, err := c.background()
	if err != nil {
		return nil, err
	}
	var out []*vision.Image
	for i, o := range objects {
		seen := m
		if o.Mask != nil && len(o.Mask) != m.Width*m.Height {
			return nil, fmt.Errorf("object %d: a mask of %d pixels on a picture of %d x %d", i, len(o.Mask), m.Width, m.Height)
		}
		if o.Mask != nil && painted {
			seen = m.Clone()
			for at, inside := range o.Mask {
				if !inside {
					copy(seen.Pix[3*at:], []uint8{paper.R, paper.G, paper.B})
				}
			}
		}
		if !c.WholeImage {
			if seen, err = seen.CropBox(o.Box[0], o.Box[1], o.Box[2], o.Box[3]); err != nil {
				return nil, fmt.Errorf("object %d: %w", i, err)
			}
		}
		out = append(out, seen)
	}
	return out, nil
}

func (c Colors) background() (paper color.RGBA, painted bool, err error) {
	said := c.Background
	switch {
	case said == "original":
		return paper, false, nil
	case said == "":
		said = "#999"
	}
	digits, ok := strings.CutPrefix(said, "#")
	if len(digits) == 3 {
		digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
	}
	rgb, err := hex.DecodeString(digits)
	if !ok || err != nil || len(rgb) != 3 {
		return paper, false, fmt.Errorf(`background %q: "#999", "#999999" or "original" was expected`, c.Background)
	}
	return color.RGBA{rgb[0], rgb[1], rgb[2], 255}, true, nil
}

// named are the colours of objects of one class by CLIP, which sees their boxes.
func (c Colors) named(ctx context.Context, m *vision.Image, found []rewards.Detection) ([]string, error) {
	if len(found) == 0 {
		return nil, nil
	}
	objects := make([]Object, len(found))
	for i, f := range found {
		objects[i].Box, objects[i].Mask = f.Box, f.Mask
	}
	said, err := c.Of(ctx, m, found[0].Class, objects)
	names := make([]string, len(said))
	for i, s := range said {
		names[i] = s.Name
	}
	return names, err
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// GenEvalKey is the table of GenEvalRules.
type GenEvalKey struct {
	GenEval *GenEvalRules `toml:"geneval" doc:"of reward geneval: which boxes count, and what the reward is"`
}

type genEvalKeys struct {
	rewards.NetworkKeys
	rewards.ServerKeys
	rewards.FrameKeys
	GenEvalKey
	rewards.DetectorKey
}

// GenEvalKind is reward geneval. With a detector at url, path names a CLIP for colours; without, the detector.
var GenEvalKind = rewards.Kind{
	Name: "geneval",
	Card: "GenEval: the objects that the prompt's meta.geneval asks for, their number, colours and places, by a detector at path, computed here, " +
		"or at url; colours by a CLIP at geneval.clip, or, with a url, at path.",
	Paper:   "GenEval (Ghosh et al., 2023)",
	Cases:   []string{"geneval.evaluate", "geneval.iou", "geneval.relative_position", "geneval.soft_score", "neural.geneval_color", "eyes.geneval"},
	Parts:   []string{"soft", "correct", "strict"},
	Judges:  rewards.Pictures,
	Bounds:  rewards.Unit,
	Options: genEvalKeys{},
	Takes: rewards.With(func(k genEvalKeys) int64 {
		if k.URL != "" { // a server detects, and path is a CLIP
			return 0
		}
		return k.DetectorTakes()
	}),
	Check: rewards.Checks(func(k genEvalKeys, report rewards.Report) {
		switch {
		case k.URL == "" && k.Path == "":
			report("name", "reward geneval needs a detector, in a folder or behind a server", `for example path = "models/mask2former-swin-small-coco-instance", or url = "http://localhost:8080/detect"`)
			return
		case k.URL != "" && k.GenEval != nil && k.GenEval.CLIP != "":
			report("geneval.clip", "with a detector at url the CLIP is at path", "move the folder to path")
		}
		k.DetectorKey.Check(k.NetworkKeys, k.ServerKeys, report)
	}),
	Needs: rewards.Always(func(p rewards.Prompt) error { return p.Meta.Has("geneval") }),
	Open: rewards.Opens(func(k genEvalKeys, b rewards.Bench) (rewards.Opened, error) {
		switch {
		case k.URL == "" && k.Path == "":
			return rewards.Opened{}, errors.New("path and url are missing: the folder of a detector, or the address of one")
		case k.URL == "":
			return openGenEval(k, b)
		}
		d, err := k.At(k.ServerKeys, b)
		if err != nil {
			return rewards.Opened{}, err
		}
		g := GenEval{Detector: d, GenEvalRules: config.Filled(k.GenEval)}
		if k.Path == "" {
			return rewards.One(g), nil
		}
		t, err := openTowers(k.NetworkKeys, b, clip.Options{})
		if err != nil {
			return rewards.Opened{}, err
		}
		g.Colors = Colors{Towers: t}.named
		return closing(rewards.Each(g, 1), t.Close), nil
	}),
}

// openGenEval is GenEval with networks of its own.
func openGenEval(k genEvalKeys, b rewards.Bench) (rewards.Opened, error) {
	d, err := rewards.OpenDetector(k.NetworkKeys, k.DetectorKey, b, true)
	if err != nil {
		return rewards.Opened{}, err
	}
	g := GenEval{Detector: d, GenEvalRules: config.Filled(k.GenEval)}
	if g.CLIP == "" {
		return closing(rewards.Each(g, 1), d.Close), nil
	}
	of := k.NetworkKeys
	of.Path = g.CLIP
	t, err := openTowers(of, b, clip.Options{Prepare: vision.OpenCLIP})
	if err != nil {
		d.Close()
		return rewards.Opened{}, err
	}
	g.Colors = Colors{Towers: t}.named
	return closing(rewards.Each(g, 1), func() { t.Close(); d.Close() }), nil
}
