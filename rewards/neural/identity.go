package neural

import (
	"context"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: whether what a box of the picture before holds is still itself: the cosine of DINO's vectors of that box and of
// the same place of the sample. Differs from identity rewards of faces, which find them and have a network of their
// own. Invariants (tests): what changes outside of the box costs nothing; values are transformers'.
type Identity struct{ Pictures Pictures }

// Score judges one sample.
func (d Identity) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	return alone(ctx, d, item)
}

// Judge compares samples with what they were made of.
func (d Identity) Judge(ctx context.Context, items []rewards.Item) []rewards.Result {
	return inBatch(ctx, items, 1, func(ctx context.Context, of []rewards.Item, pictures []*vision.Image) ([]rewards.Score, error) {
		was, is := make([]*vision.Image, len(of)), make([]*vision.Image, len(of))
		for i, item := range of {
			if len(item.Sources) == 0 {
				return nil, rewards.ErrNoSource
			}
			box, err := rewards.Subject(item.Meta)
			if err != nil {
				return nil, err
			}
			before, m := item.Sources[0], pictures[i]
			across, down := float64(m.Width)/float64(before.Width), float64(m.Height)/float64(before.Height)
			if was[i], err = before.CropBox(box[0], box[1], box[2], box[3]); err != nil {
				return nil, err
			}
			if is[i], err = m.CropBox(box[0]*across, box[1]*down, box[2]*across, box[3]*down); err != nil {
				return nil, err
			}
		}
		values, err := Likeness{Pictures: d.Pictures}.Images(ctx, is, was)
		return plain(values), err
	})
}
