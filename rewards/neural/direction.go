package neural

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
)

// Card: the direction of an edit in CLIP's space (StyleGAN-NADA; Gal et al., 2021):
//
//	<d/|d|, t/|t|>,  d = x/|x| - x₀/|x₀|,  t = y/|y| - y₀/|y₀|
//
// x and x₀ are the vectors of the sample and of the first picture that it was made of, y and y₀ those of meta.target
// and meta.source, descriptions of the two. A sample that is its source has gone nowhere, and is worth 0. Invariants
// (tests): a sample whose vector moves as the texts do is worth 1, one that moves the other way -1.
type Direction struct{ Towers Towers }

// Score judges one sample.
func (d Direction) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	if item.Image == nil || len(item.Sources) == 0 {
		return rewards.Score{}, rewards.ErrNoSource
	}
	var texts []string
	for _, key := range []string{"source", "target"} {
		text, err := item.Meta.Text(key)
		if err != nil {
			return rewards.Score{}, err
		}
		texts = append(texts, text)
	}
	said, err := d.Towers.Texts(ctx, texts)
	if err != nil {
		return rewards.Score{}, err
	}
	seen, err := d.Towers.Images(ctx, []*vision.Image{item.Sources[0], item.Image})
	if err != nil {
		return rewards.Score{}, err
	}
	asked, err := moved(said)
	if err != nil {
		return rewards.Score{}, err
	}
	t, _, err := unit(asked)
	if err != nil {
		return rewards.Score{}, fmt.Errorf("meta.source and meta.target are one: %w", err)
	}
	went, err := moved(seen)
	if err != nil {
		return rewards.Score{}, err
	}
	u, length, err := unit(went)
	if err != nil { // both vectors are directions: the sample is its source
		return rewards.Score{Parts: map[string]float64{"length": 0}}, nil
	}
	return rewards.Score{Value: dot(u, t), Parts: map[string]float64{"length": length}}, nil
}

// moved is how far two vectors' directions are apart, from the first to the second.
func moved(two [][]float64) ([]float64, error) {
	both, err := units(two)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(both[0]))
	for i := range out {
		out[i] = both[1][i] - both[0][i]
	}
	return out, nil
}

// DirectionKind is reward direction.
var DirectionKind = rewards.Kind{
	Name:      "direction",
	Card:      "Whether a picture changed as the texts did: cosine of the way from source to sample with that from meta.source to meta.target, by CLIP.",
	Paper:     "StyleGAN-NADA (Gal et al., 2022)",
	Judges:    rewards.Pictures,
	Traits:    rewards.Weights,
	Published: publishedCLIP,
	Options:   rewards.NetworkKeys{},
	Needs: rewards.Always(func(p rewards.Prompt) error {
		_, source := p.Meta.Texts("source")
		_, target := p.Meta.Texts("target")
		return errors.Join(rewards.Sourced(p), source, target)
	}),
	Open: rewards.Opens(func(k rewards.NetworkKeys, b rewards.Bench) (rewards.Opened, error) {
		t, err := openTowers(k, b, clip.Options{})
		if err != nil {
			return rewards.Opened{}, err
		}
		return closing(rewards.Each(Direction{Towers: t}, 1), t.Close), nil
	}),
}
