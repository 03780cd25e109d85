package rewards

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
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
	Detector Detector
	Colors   func(ctx context.Context, m *vision.Image, d []Detection) ([]string, error) // nil: as the detector says
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
}

// SetDefaults are the published numbers.
func (g *GenEvalRules) SetDefaults() {
	*g = GenEvalRules{Value: "soft", Threshold: 0.3, CountingThreshold: 0.9, MostObjects: 16, MaxOverlap: 1, PositionThreshold: 0.1}
}

// A Wish is what GenEval's metadata asks for.
type Wish struct {
	Tag     string   `json:"tag"`
	Include []Clause `json:"include"`
	Exclude []Clause `json:"exclude"`
}

// A Clause asks for so many objects of a class.
type Clause struct {
	Class    string `json:"class"`
	Count    int    `json:"count"`
	Color    string `json:"color"`    // "": any
	Position *Place `json:"position"` // nil: any
}

// labels are the classes that a wish names.
func (w Wish) labels() (labels []string) {
	for _, c := range slices.Concat(w.Include, w.Exclude) {
		labels = withLabel(labels, c.Class)
	}
	return labels
}

// A Verdict is what GenEval finds.
type Verdict struct {
	Correct bool
	Strict  bool // exactly the counts asked for
	Soft    float64
	Reasons []string // what is wrong
}

// Score is the soft score of a picture against the prompt's meta.geneval.
func (g GenEval) Score(ctx context.Context, item Item) (Score, error) {
	var w Wish
	if err := item.Meta.Read("geneval", &w); err != nil {
		return Score{}, err
	}
	if item.Image == nil {
		return Score{}, errNoImage
	}
	found, err := g.Detector.Detect(ctx, item.Image, w.labels())
	if err != nil {
		return Score{}, err
	}
	kept := g.Keep(found, w.Tag)
	if g.Colors != nil {
		for class, list := range kept {
			colors, err := g.Colors(ctx, item.Image, list)
			if err != nil {
				return Score{}, fmt.Errorf("naming the colours of %d objects %q: %w", len(list), class, err)
			}
			if len(colors) != len(list) {
				return Score{}, fmt.Errorf("%d objects %q have %d colours", len(list), class, len(colors))
			}
			for i := range list {
				list[i].Color = colors[i]
			}
		}
	}
	v, err := g.Evaluate(kept, w)
	if err != nil {
		return Score{}, err
	}
	s := Score{Value: v.Soft, Parts: map[string]float64{"soft": v.Soft, "correct": truth(v.Correct), "strict": truth(v.Strict)}}
	if part, ok := s.Parts[g.Value]; ok {
		s.Value = part
	}
	for _, why := range v.Reasons {
		s.Because("wrong", "%s", why)
	}
	for _, d := range found {
		s.Evidence = append(s.Evidence, Evidence{What: "found", Text: strings.TrimSpace(d.Color + " " + d.Class), Box: &d.Box, Value: d.Score})
	}
	return s, nil
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
