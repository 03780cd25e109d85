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
	if m := item.Image; m.Width != moving.Size || m.Height != moving.Size {
		return Score{}, fmt.Errorf("a picture of %d x %d is no moving scene: those are %d x %d", m.Width, m.Height, moving.Size, moving.Size)
	}
	s, err := moving.Parse(item.Prompt)
	if err != nil {
		return Score{}, err
	}
	l := s.Look(item.Image.Pix)
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
