package neural

import (
	"context"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: how little changed where nothing was to change, in the form of LPIPS (Zhang et al., 2018; arXiv:1801.03924) on
// DINO's features. With u_p and v_p of length 1, the features of patch p of a sample and of the picture that it was
// made of, LPIPS is the mean over p of |u_p - v_p|², and the reward 1 less half of it: the mean of <u_p, v_p>.
// Differs: one layer, the last, with equal weights, and no network of LPIPS's own. Patches whose centre lies in a box
// of meta.changes are left out; the network has seen them beside the others all the same.
// Invariants (tests): a picture that did not change has 1; values are transformers'.
type Patches struct {
	Pictures Pictures // of a picture, Grid x Grid vectors in a row
	Grid     int
}

// Score judges one sample.
func (p Patches) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	return alone(ctx, p, item)
}

// Judge compares samples with what they were made of.
func (p Patches) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return inBatch(ctx, items, 1, func(ctx context.Context, of []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error) {
		before := make([]*vision.Image, len(of))
		for i, item := range of {
			if len(item.Sources) == 0 {
				return nil, rewards.ErrNoSource
			}
			before[i] = item.Sources[0]
		}
		was, err := p.Pictures.Images(ctx, before)
		if err != nil {
			return nil, fmt.Errorf("the pictures before: %w", err)
		}
		is, err := p.Pictures.Images(ctx, pictures)
		if err != nil {
			return nil, err
		}
		scores := make([]rewards.Score, len(of))
		for i := range scores {
			if scores[i], err = p.compared(of[i].Meta, before[i], was[i], is[i]); err != nil {
				return nil, err
			}
		}
		return scores, nil
	})
}

// compared is the mean cosine of the patches that count.
func (p Patches) compared(meta rewards.Meta, before *vision.Image, was, is []float64) (rewards.Score, error) {
	out, err := rewards.Changes(meta, float64(p.Grid)/float64(before.Width), float64(p.Grid)/float64(before.Height))
	if err != nil {
		return rewards.Score{}, err
	}
	sum, n, width := 0.0, 0, len(was)/(p.Grid*p.Grid)
	for at := range p.Grid * p.Grid {
		if out != nil && out(at%p.Grid, at/p.Grid) {
			continue
		}
		cosine, err := Cosine(was[at*width:(at+1)*width], is[at*width:(at+1)*width])
		if err != nil {
			return rewards.Score{}, err
		}
		sum, n = sum+cosine, n+1
	}
	if n == 0 {
		return rewards.Score{}, errors.New("meta.changes leaves no patch of the picture to be compared")
	}
	return rewards.Score{Value: sum / float64(n), Parts: map[string]float64{"share": float64(n) / float64(p.Grid*p.Grid)}}, nil
}
