package neural

import (
	"context"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/blip"
)

// Card: a network that reads the prompt and looks at the picture at once, and says how much
// people would like it for that prompt: ImageReward (package vision/blip), whose scores have mean
// 0 and deviation 1 over its annotators' pictures. It is not scaled here; of clips the reward is
// the mean over frames.
// Invariants (tests): each picture is judged for its own prompt; a gradient is of the same number.

// A Reader judges pictures, each for its prompt.
type Reader interface {
	Rewards(ctx context.Context, prompts []string, pictures []*vision.Image) ([]float64, error)
	Gradient(ctx context.Context, prompts []string, pictures []vision.Pixels) (rewards []float64, grads [][]float32, err error)
	Unread(prompt string) string
}

// Preference is such a network as a reward.
type Preference struct {
	Network Reader
	Every   int // of a clip, one frame in this many is judged; 0: 1
}

var (
	_ rewards.Judge  = Preference{}
	_ rewards.Reward = Preference{}
	_ Differentiable = Preference{}
)

// Score judges one sample.
func (p Preference) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	return alone(ctx, p, item)
}

// Judge judges samples together. Evidence is the end of a prompt that is too long to be read.
func (p Preference) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return inBatch(ctx, items, p.Every, func(ctx context.Context, of []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error) {
		prompts := promptsOf(of)
		values, err := p.Network.Rewards(ctx, prompts, pictures)
		scores := plain(values)
		for i := range scores {
			if unread := p.Network.Unread(prompts[i]); unread != "" {
				scores[i].Because("unread", "%s", unread)
			}
		}
		return scores, err
	})
}

// PixelGradient is the network's for samples.
func (p Preference) PixelGradient(ctx context.Context, items []rewards.Item, pictures []vision.Pixels) ([]float64, [][]float32, error) {
	return p.Network.Gradient(ctx, promptsOf(items), pictures)
}

type preferenceKeys struct {
	rewards.NetworkKeys
	rewards.FrameKeys
}

// ImageRewardKind is reward imagereward.
var ImageRewardKind = rewards.Kind{
	Name:  "imagereward",
	Card:  "ImageReward: a BLIP that reads the prompt while it looks; path holds its weights as safetensors, med_config.json and BERT's tokenizer.",
	Paper: "ImageReward (Xu et al., 2023)",
	Published: &rewards.Published{From: []rewards.Repository{
		{Name: "THUDM/ImageReward", Files: []string{"ImageReward.pt", "med_config.json"}, Saves: rewards.Pickle{From: "ImageReward.pt", To: "model.safetensors"}},
		{Name: "google-bert/bert-base-uncased", Files: rewards.Texts()}}, Licence: "Apache-2.0", Numbers: 446_800_000},
	Judges:  rewards.Pictures,
	Traits:  rewards.Averages | rewards.Weights | rewards.Slopes | rewards.Prompted,
	Options: preferenceKeys{},
	Open: rewards.Opens(func(k preferenceKeys, b rewards.Bench) (rewards.Opened, error) {
		dir, d, err := opening(k.NetworkKeys, b)
		if err != nil {
			return rewards.Opened{}, err
		}
		m, err := blip.Open(dir, blip.Options{Device: d})
		if err != nil {
			return rewards.Opened{}, err
		}
		return closing(Preference{Network: m}, m.Close), nil
	}),
}
