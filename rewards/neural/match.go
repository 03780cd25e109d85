package neural

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
)

// Card: how well a picture matches its prompt, by the towers of a CLIP:
//
//	reward = scaling(<x/|x|, t/|t|>),  x the picture's vector, t the prompt's
//
// CLIP score (OpenAI's weights), PickScore (weights trained on people's choices; folders of
// transformers) and HPSv2 (the same, folders of open_clip, pictures letter-boxed) differ in
// weights, pipeline and scaling alone. The gradient is of the same number through the
// pipeline for pixels. The published HPSv2 score was computed under fp16 autocast.
// Invariants (tests): the gradient agrees with differences; a sample's score does not depend
// on its batch. Held to neural.clip and neural.hpsv2.
type Match struct {
	Towers  Towers
	Scaling Scaling
	Every   int // of a clip, one frame in this many is judged; 0: 1
}

// A Matched is one picture's score.
type Matched struct {
	Value, Cosine float64
}

// Images scores pictures, each against its prompt.
func (m Match) Images(ctx context.Context, prompts []string, pictures []*vision.Image) ([]Matched, error) {
	if len(prompts) != len(pictures) {
		return nil, fmt.Errorf("%d prompts for %d pictures", len(prompts), len(pictures))
	}
	texts, err := m.texts(ctx, prompts)
	if err != nil {
		return nil, err
	}
	vectors, err := m.Towers.Images(ctx, pictures)
	if err != nil {
		return nil, err
	}
	out := make([]Matched, len(vectors))
	for i, x := range vectors {
		u, _, err := unit(x)
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i, err)
		}
		out[i], _ = m.of(dot(u, texts[i]))
	}
	return out, nil
}

func (m Match) of(cosine float64) (Matched, float64) {
	value, slope := m.Scaling.Of(cosine, m.Towers.Scale())
	return Matched{value, cosine}, slope
}

func (m Match) texts(ctx context.Context, prompts []string) ([][]float64, error) {
	texts, err := m.Towers.Texts(ctx, prompts)
	if err != nil {
		return nil, err
	}
	if texts, err = units(texts); err != nil {
		return nil, fmt.Errorf("a prompt's text: %w", err)
	}
	return texts, nil
}

// Gradient scores pictures of numbers, each against its prompt, and says how each number
// changes its picture's score.
func (m Match) Gradient(ctx context.Context, prompts []string, pictures []vision.Pixels) ([]float64, [][]float32, error) {
	if len(prompts) != len(pictures) {
		return nil, nil, fmt.Errorf("%d prompts for %d pictures", len(prompts), len(pictures))
	}
	texts, err := m.texts(ctx, prompts)
	if err != nil {
		return nil, nil, err
	}
	return pointwise(ctx, m.Towers, pictures, func(i int, u []float64) (float64, []float64) {
		s, slope := m.of(dot(u, texts[i]))
		return s.Value, scaled(texts[i], slope)
	})
}

// pointwise is the gradient of a reward that is a function of each picture's unit vector; of
// answers the reward and its derivative there.
func pointwise(ctx context.Context, p Pictures, pictures []vision.Pixels, of func(i int, u []float64) (float64, []float64)) ([]float64, [][]float32, error) {
	values := make([]float64, len(pictures))
	grads, err := p.PullPixels(ctx, pictures, func(from int, vectors [][]float64) ([][]float64, error) {
		d := make([][]float64, len(vectors))
		for i, x := range vectors {
			u, norm, err := unit(x)
			if err != nil {
				return nil, fmt.Errorf("picture %d: %w", from+i, err)
			}
			value, at := of(from+i, u)
			values[from+i], d[i] = value, back(u, norm, at)
		}
		return d, nil
	})
	return values, grads, err
}

type matchKeys struct {
	rewards.NetworkKeys
	ScalingKey
	rewards.FrameKeys
}

// matching is a kind that is the cosine of picture and prompt, in the scaling that its project publishes.
func matching(scaling string, prepare func(size int) vision.Preprocess, k rewards.Kind) rewards.Kind {
	toy := k.Toy != ""
	k.Judges, k.Traits, k.Options = rewards.Pictures, rewards.Averages|rewards.Weights|rewards.Slopes|rewards.Prompted, matchKeys{}
	k.Parts = []string{"cosine"}
	k.Check = rewards.Checks(func(k matchKeys, report rewards.Report) { k.ScalingKey.Check(report) })
	k.Open = rewards.Opens(func(k matchKeys, b rewards.Bench) (rewards.Opened, error) {
		if k.Path == "" && toy {
			k.Path = TinyCLIP
		}
		if k.Scaling == "" {
			k.Scaling = scaling
		}
		scaling, err := ScalingNamed(k.Scaling)
		if err != nil {
			return rewards.Opened{}, err
		}
		t, err := openTowers(k.NetworkKeys, b, clip.Options{Prepare: prepare})
		if err != nil {
			return rewards.Opened{}, err
		}
		return closing(Match{Towers: t, Scaling: scaling}, t.Close), nil
	})
	return k
}

// hugeCLIP is the CLIP that PickScore and HPSv2 were trained from.
const hugeCLIP = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K"

// publishedCLIP is the CLIP of CLIPScore and of the aesthetic head.
var publishedCLIP = &rewards.Published{From: []rewards.Repository{{Name: "openai/clip-vit-large-patch14"}}, Licence: "MIT", Numbers: 427_616_513}

// Rewards of picture and prompt.
var (
	CLIPKind = matching("cosine", nil, rewards.Kind{
		Name:      "clip",
		Card:      "Cosine of CLIP's features of picture and prompt; path holds its weights, and without it an embedded toy judges the embedded models' drawings.",
		Paper:     "CLIP (Radford et al., 2021); CLIPScore (Hessel et al., 2021)",
		Cases:     []string{"neural.clip", "neural.score_scales"},
		Published: publishedCLIP,
		Toy:       towersToy,
		Remedy:    fmt.Sprintf(towersFor, "clip"),
	})
	PickScoreKind = matching("logit", nil, rewards.Kind{
		Name:  "pickscore",
		Card:  "PickScore: a CLIP trained on people's choices.",
		Paper: "PickScore (Kirstain et al., 2023)",
		Published: &rewards.Published{From: []rewards.Repository{{Name: "yuvalkirstain/PickScore_v1"}, {Name: hugeCLIP, Files: rewards.Texts()}},
			Licence: "MIT", Numbers: 986_109_441},
		Cases: []string{"neural.clip", "neural.score_scales"},
	})
	HPSv2Kind = matching("cosine", vision.HPSv2, rewards.Kind{
		Name:  "hpsv2",
		Card:  "Human Preference Score v2.",
		Paper: "HPSv2 (Wu et al., 2023)",
		Published: &rewards.Published{From: []rewards.Repository{
			{Name: "xswu/HPSv2", Files: []string{"HPS_v2.1_compressed.pt"}, Saves: rewards.Pickle{From: "HPS_v2.1_compressed.pt", To: "open_clip_model.safetensors"}},
			{Name: hugeCLIP, Files: rewards.Texts("open_clip_config.json")}}, Licence: "Apache-2.0", Numbers: 986_109_441},
		Cases: []string{"neural.hpsv2"},
	})
)
