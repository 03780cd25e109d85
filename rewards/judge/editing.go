package judge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: judges that also see the pictures that a sample was made of. The pictures of the prompt are shown first, then
// the one that is judged; a sample that was made of no picture has no score.
//
//	editscore       VectorSpaceLab/EditScore: two questions, about both pictures and about the edited one, each
//	                answered by two marks of 0 to 25; √(least of the first · least of the second)/2.5, from 0 to 10
//	edit_r1         PKU-YuanGroup/Edit-R1: the mean of 0 to 5 by the chances of these digits as the answer's first token,
//	                over 5; {requirement} is meta.requirement, or nothing
//	edit_following  Pref-GRPO: the mean of two marks of 0 to 25 (pointwise.go)
//
// An answer that cannot be read has no score. (EditScore asks three times and then makes up half of the range; Edit-R1
// makes 0 of a failure.) Several passes with other seeds, which EditScore averages, are several rewards here.
// Invariants (tests): marks come out as upstream's functions give them; a digit that is certain is that digit over 5.

var errNoSource = errors.New("there is no picture that this one was made of, and this form compares the two: name it by image in the prompts")

// sourced are the pictures of a question about an edit.
func sourced(item rewards.Item) ([]*vision.Image, error) {
	if len(item.Sources) == 0 {
		return nil, errNoSource
	}
	pictures, err := picturesOf(item)
	return append(append([]*vision.Image{}, item.Sources...), pictures...), err
}

// EditScore asks two questions about an edit.
type EditScore struct{ Model Completer }

// Score asks about an item.
func (e EditScore) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	both, err := sourced(item)
	if err != nil {
		return rewards.Score{}, err
	}
	s := rewards.Score{Parts: map[string]float64{}}
	following, err := e.marks(ctx, &s, "editscore_following", item.Prompt, both)
	if err != nil {
		return s, err
	}
	quality, err := e.marks(ctx, &s, "editscore_quality", item.Prompt, both[len(item.Sources):])
	if err != nil {
		return s, err
	}
	least := func(m [2]float64) float64 { return min(m[0], m[1]) }
	if least(following) < 0 || least(quality) < 0 {
		return s, fmt.Errorf("%w: a mark below 0", errUnreadable)
	}
	s.Parts["following"], s.Parts["consistency"], s.Parts["quality"] = following[0]/2.5, following[1]/2.5, least(quality)/2.5
	s.Value = math.Sqrt(float64(least(following)/2.5) * float64(least(quality)/2.5))
	return s, nil
}

// marks are the answer to one of the questions.
func (e EditScore) marks(ctx context.Context, s *rewards.Score, template, prompt string, pictures []*vision.Image) ([2]float64, error) {
	text, err := FillTemplate(template, Blanks{Prompt: prompt})
	if err != nil {
		return [2]float64{}, err
	}
	reply, err := e.Model.Complete(ctx, pictures, text)
	if err != nil {
		return [2]float64{}, err
	}
	s.Because("judge", "%s", reply)
	m, ok := EditMarks(reply)
	if !ok {
		err = fmt.Errorf("%w: %.200q", errUnreadable, reply)
	}
	return m, err
}

// EditChance is Edit-R1's judge.
type EditChance struct{ Model Teller }

// most is the highest mark.
const most = 5

// Score asks about an item.
func (e EditChance) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	pictures, err := sourced(item)
	if err != nil {
		return rewards.Score{}, err
	}
	requirement, _ := item.Meta.Text("requirement") // upstream: "" without one
	text, err := FillTemplate("edit_r1_score", Blanks{Prompt: item.Prompt, Requirement: requirement})
	if err != nil {
		return rewards.Score{}, err
	}
	var digits []string
	for d := range most + 1 {
		digits = append(digits, strconv.Itoa(d))
	}
	chances, err := e.Model.Chances(ctx, pictures, text, digits)
	if err != nil {
		return rewards.Score{}, err
	}
	sum, all := 0.0, 0.0
	s := rewards.Score{Parts: map[string]float64{}}
	for d, p := range chances {
		sum, all = sum+float64(float64(d)*p), all+p
		s.Parts[digits[d]] = p
	}
	if len(chances) != len(digits) || math.IsNaN(all) || all <= 0 {
		return s, fmt.Errorf("%w: the chances of 0 to 5 are %v", errUnreadable, chances)
	}
	s.Value = sum / all / most
	return s, nil
}

// Forms that see the picture before an edit.
var (
	EditScoreForm = Form{
		Name:     "editscore",
		Card:     "Two questions, about both pictures and about the edited one, from 0 to 10 (EditScore).",
		Judges:   shown,
		Edits:    true,
		Pref:     true,
		Nameless: true,
		New:      func(_ Options, m Model) (rewards.Reward, error) { return EditScore{Model: m}, nil },
	}
	EditR1Form = Form{
		Name:     "edit_r1",
		Card:     "The mean mark of an edit by the chances of the digits 0 to 5, over 5 (Edit-R1).",
		Judges:   shown,
		Edits:    true,
		Pref:     true,
		Nameless: true,
		New:      func(_ Options, m Model) (rewards.Reward, error) { return EditChance{Model: m}, nil },
	}
)
