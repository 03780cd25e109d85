package judge

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: marks of one picture, or of the frames of a clip: Pointwise asks, and reads a mark:
//
//	flow_grpo        flow_grpo_score, FinalFrom1 over 5
//	mixgrpo          mixgrpo_score, Final
//	mixgrpo_semantic mixgrpo_semantic, Alignment
//	unified          pref_point_image, the mean of the axes that were marked; all must be
//	edit_quality     pref_edit_quality, the mean of both marks, 0 to 25
//	edit_following   pref_edit_following, the same, of the picture before the edit and the one after
//
// An answer that cannot be read has no score.

// A Pointwise judge marks pictures one by one.
type Pointwise struct {
	Model    Completer
	Question string // a name of Templates
	Sources  bool   // the pictures that it was made of are shown before it
	Read     func(reply string) (value float64, parts map[string]float64, ok bool)
}

// NewPointwise is a judge by the name of its form.
func NewPointwise(form string, m Completer) (Pointwise, error) {
	var names []string
	for _, f := range Forms() {
		if f.Mark != nil && f.Name == form {
			return f.Mark.by(m), nil
		}
		if f.Mark != nil {
			names = append(names, f.Name)
		}
	}
	return Pointwise{}, fmt.Errorf("no judge marks in the form %q: it is one of %s", form, strings.Join(names, ", "))
}

// A Marking is a question about one picture, and how its mark is read.
type Marking struct {
	Question string
	Sources  bool // the pictures that it was made of are shown before it
	Read     func(reply string) (value float64, parts map[string]float64, ok bool)
}

func (k Marking) by(m Completer) Pointwise {
	return Pointwise{Model: m, Question: k.Question, Sources: k.Sources, Read: k.Read}
}

// over reads one mark, out of most.
func over(read func(string) (float64, bool), most float64) func(string) (float64, map[string]float64, bool) {
	return func(reply string) (float64, map[string]float64, bool) {
		v, ok := read(reply)
		return v / most, nil, ok
	}
}

// Forms that mark pictures one by one.
var (
	FlowGRPOForm = Form{
		Name:   "flow_grpo",
		Card:   "UnifiedReward's mark from 1 to 5, over 5 (Flow-GRPO).",
		Judges: shown,
		Mark:   &Marking{Question: "flow_grpo_score", Read: over(FinalFrom1, 5)},
	}
	MixGRPOForm = Form{
		Name:   "mixgrpo",
		Card:   "UnifiedReward's mark from 0 to 5 (MixGRPO).",
		Judges: shown,
		Mark:   &Marking{Question: "mixgrpo_score", Read: over(Final, 1)},
	}
	MixGRPOSemanticForm = Form{
		Name:   "mixgrpo_semantic",
		Card:   "UnifiedReward's mark of what was asked for, from 0 to 5 (MixGRPO).",
		Judges: shown,
		Mark:   &Marking{Question: "mixgrpo_semantic", Read: over(Alignment, 1)},
	}
	UnifiedForm = Form{
		Name:   "unified",
		Card:   "The mean of UnifiedReward's marks of alignment, coherence and style; all must be there (Pref-GRPO).",
		Judges: shown,
		Pref:   true,
		Mark:   &Marking{Question: "pref_point_image", Read: readAxes},
	}
	EditQualityForm = Form{
		Name:   "edit_quality",
		Card:   "The mean of two marks of an edited picture, from 0 to 25 (Pref-GRPO).",
		Judges: shown,
		Pref:   true,
		Mark:   &Marking{Question: "pref_edit_quality", Read: readEdits},
	}
	EditFollowingForm = Form{
		Name:   "edit_following",
		Card:   "The same of the picture before the edit and the one after (Pref-GRPO).",
		Judges: shown,
		Pref:   true,
		Edits:  true,
		Mark:   &Marking{Question: "pref_edit_following", Sources: true, Read: readEdits},
	}
)

func readAxes(reply string) (float64, map[string]float64, bool) {
	marks, sum := Marks(reply), 0.0
	for _, axis := range Axes {
		v, ok := marks[axis]
		if !ok {
			return 0, nil, false
		}
		sum += v
	}
	return sum / float64(len(Axes)), marks, true
}

func readEdits(reply string) (float64, map[string]float64, bool) {
	m, ok := EditMarks(reply)
	return (m[0] + m[1]) / 2, map[string]float64{"first": m[0], "second": m[1]}, ok
}

var errUnreadable = errors.New("the judge's answer cannot be read")

// Score asks about an item.
func (p Pointwise) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	show := picturesOf
	if p.Sources {
		show = sourced
	}
	pictures, err := show(item)
	if err != nil {
		return rewards.Score{}, err
	}
	text, err := FillTemplate(p.Question, Blanks{Prompt: item.Prompt})
	if err != nil {
		return rewards.Score{}, err
	}
	reply, err := p.Model.Complete(ctx, pictures, text)
	if err != nil {
		return rewards.Score{}, err
	}
	v, parts, ok := p.Read(reply)
	if !ok {
		return rewards.Score{}, fmt.Errorf("%w: %.200q", errUnreadable, reply)
	}
	return rewards.Score{Value: v, Parts: parts, Evidence: []evidence.Reason{{What: "judge", Text: reply}}}, nil
}

// Card: marks in a judge's words. The first "Final Score:" or "Alignment Score (1-5):" counts, with one digit of its
// number and the digits after a point: 45 is read as 4, and 5.9 passes.
//
//	FinalFrom1   flow_grpo: 1 to 5. Upstream scores an unreadable reply 0
//	Final        MixGRPO: 0 to 5. Upstream makes null of it, which fails the whole batch
//	Alignment    MixGRPO, of its longer question
//	Tag          flow_grpo's qwenvl: <Score>digits</Score> over 5, not bounded; 0 if unreadable
//
// Invariant (test): a missing mark is not read.

const digits = `(?:\.\p{Nd}+)?`

var (
	finalFrom1 = regexp.MustCompile(`Final Score:` + pytext.SpaceClass + `*([1-5]` + digits + `)`)
	final      = regexp.MustCompile(`Final Score:` + pytext.SpaceClass + `*([0-5]` + digits + `)`)
	alignment  = regexp.MustCompile(`Alignment Score \(1-5\):` + pytext.SpaceClass + `*([0-5]` + digits + `)`)
	tagged     = regexp.MustCompile(`<Score>(\p{Nd}+)</Score>`)
)

func mark(r *regexp.Regexp, reply string) (float64, bool) {
	m := r.FindStringSubmatch(reply)
	if m == nil {
		return 0, false
	}
	return pytext.Float(m[1])
}

// FinalFrom1 is flow_grpo's mark, 1 to 5.
func FinalFrom1(reply string) (float64, bool) { return mark(finalFrom1, reply) }

// Final is MixGRPO's mark, 0 to 5.
func Final(reply string) (float64, bool) { return mark(final, reply) }

// Alignment is MixGRPO's mark for following the prompt, 0 to 5.
func Alignment(reply string) (float64, bool) { return mark(alignment, reply) }

// Tag is the mark of flow_grpo's aesthetic judge, over 5.
func Tag(reply string) (float64, bool) {
	v, ok := mark(tagged, reply)
	return v / 5, ok
}

// Card: marks on several axes (Pref-GRPO, unifiedreward.py): "Style Score (1-5): 3.5" for each of
// Alignment, Coherence, Style; the last of a repeated one counts. An axis that an answer leaves
// out takes upstream its mean over the answers of the batch that have it, 0 if none has; the reward here leaves
// it missing instead.

// Axes are those that are asked for.
var Axes = [...]string{"Alignment", "Style", "Coherence"}

var axis = regexp.MustCompile(`([\pL\p{N}_]+) Score \(1-5\):` + pytext.SpaceClass + `*([0-5]` + digits + `)`)

// Marks are an answer's marks by axis.
func Marks(reply string) map[string]float64 {
	all := map[string]float64{}
	for _, m := range axis.FindAllStringSubmatch(reply, -1) {
		if v, ok := pytext.Float(m[2]); ok {
			all[m[1]] = v
		}
	}
	return all
}

// Card: two marks for an edited picture (Pref-GRPO, unifiedreward_edit_pointwise.py): JSON, or the text from the
// first brace to the last, with "score": [a, b], 0 to 25 each, neither clipped nor scaled. Numbers in quotation marks
// count. Upstream scores an unreadable reply [0, 0]. Invariant (test): marks come through JSON, fences and words
// around them.

var braced = regexp.MustCompile(`(?s)\{.*\}`)

// EditMarks are both marks of an answer.
func EditMarks(reply string) (marks [2]float64, ok bool) {
	text := pytext.Strip(reply)
	v, err := pytext.JSON(text)
	if inner, isText := v.(string); err == nil && isText {
		text = pytext.Strip(inner)
	}
	o, isObject := v.(pytext.Object)
	if !isObject {
		v, _ = pytext.JSON(braced.FindString(text))
		o, _ = v.(pytext.Object)
	}
	list, _ := o["score"].([]any)
	if len(list) < 2 {
		return marks, false
	}
	for i := range marks {
		if marks[i], ok = number(list[i]); !ok {
			return [2]float64{}, false
		}
	}
	return marks, true
}

// number is float(v).
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case pytext.Number:
		return v.Value, true
	case string:
		return pytext.Float(v)
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
