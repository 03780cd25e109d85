package judge

import (
	"context"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: VQAScore (arXiv 2404.01291): how likely a model is to answer "Yes" when it is asked
//
//	Does this figure show "{prompt}"? Please answer yes or no.
//
// about a picture. It needs a model whose probabilities can be seen: a folder, not a server. The
// score is P("Yes"); the parts also hold P("No") and the share P("Yes") / (P("Yes") + P("No")),
// which does not fall when the model would rather say something else first. Of a clip the frames
// are asked about together. The invariant (test): P("Yes") = 0 for both is missing, not 0/0.

// Teller is a model that tells how likely answers are.
type Teller interface {
	Chances(ctx context.Context, pictures []*vision.Image, text string, answers []string) ([]float64, error)
}

// VQAScore asks whether a picture shows its prompt.
type VQAScore struct{ Model Teller }

// vqaQuestion is the published question.
const vqaQuestion = `Does this figure show "%s"? Please answer yes or no.`

// Score asks about an item.
func (v VQAScore) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	pictures, err := picturesOf(item)
	if err != nil {
		return rewards.Score{}, err
	}
	p, err := v.Model.Chances(ctx, pictures, fmt.Sprintf(vqaQuestion, item.Prompt), []string{"Yes", "No"})
	if err != nil {
		return rewards.Score{}, err
	}
	if len(p) != 2 || math.IsNaN(p[0]+p[1]) || p[0]+p[1] <= 0 {
		return rewards.Score{}, fmt.Errorf("%w: the chances of yes and no are %v", errUnreadable, p)
	}
	return rewards.Score{Value: p[0], Parts: map[string]float64{"yes": p[0], "no": p[1], "share": p[0] / (p[0] + p[1])}}, nil
}

// VQAScoreForm is form vqascore.
var VQAScoreForm = Form{
	Name:   "vqascore",
	Card:   "How likely the model is to answer yes when it is asked whether the picture shows the prompt (VQAScore).",
	Judges: shown,
	Folder: true,
	New:    func(_ Options, m Model) (rewards.Reward, error) { return VQAScore{Model: m}, nil },
}
