package neural

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/vision"
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
	Every   int // of a clip, so many frames one is judged; 0: 1
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
