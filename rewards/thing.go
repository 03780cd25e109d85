package rewards

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Thing judges whether a picture, or a frame of a clip, shows the thing of a moving scene's caption: its colour, its
// shape and the background, wherever it is (moving.Look has the formula). Heading judges how it moves.
type Thing struct{}

// Score judges a picture.
func (Thing) Score(_ context.Context, item Item) (Score, error) {
	if item.Image == nil {
		return Score{}, ErrNoImage
	}
	m := item.Image
	f, ok := moving.Sized(m.Width)
	if !ok || m.Height != f.Size {
		return Score{}, fmt.Errorf("a picture of %d x %d is no moving scene: those are 32 x 32 or 64 x 64", m.Width, m.Height)
	}
	s, err := moving.Parse(item.Prompt)
	if err != nil {
		return Score{}, err
	}
	l := f.Look(s, m.Pix)
	return Score{Value: l.Value, Parts: map[string]float64{"shape": l.Shape, "ground": l.Ground}}, nil
}

// ThingKind is reward thing.
var ThingKind = Kind{
	Name:   "thing",
	Card:   "Whether each frame of an embedded clip shows what its caption names: colour, shape and background, wherever it is; how it moves is heading's.",
	Paper:  "Darkroom's moving scenes",
	Parts:  []string{"shape", "ground"},
	Judges: Pictures,
	Bounds: Unit,
	Needs:  Always(func(p Prompt) error { _, err := moving.Parse(p.Text); return err }),
	Open:   Plain(Thing{}),
}
