package rewards

import (
	"context"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// SceneEdit judges edits of embedded scenes (scenes.Edit): how well the wanted change is done, times the share of
// everything else that is as it was in the picture that the sample was made of: the mean of the other object's and of
// the ground's, which has several times its pixels. meta.scene is that picture's caption. A sample that is drawn anew
// does the change, and keeps little; one that changes nothing does nothing.
//
// Smaller square samples are enlarged to the scene's side first.
//
// Of says which of the two is the value: OfBoth, or one alone. A reward of the change alone is gamed by drawing
// everything anew, and a reward of the rest alone by changing nothing.
//
// Invariants (tests): the edit itself, drawn, is worth more than the picture as it was, and more than another scene.
type SceneEdit struct{ Of EditPart }

// EditPart is a part of an edit's score.
type EditPart string

// The parts.
const (
	OfBoth EditPart = ""
	OfDone EditPart = "done"
	OfKept EditPart = "kept"
)

// Score judges a picture.
func (r SceneEdit) Score(_ context.Context, item Item) (Score, error) {
	switch {
	case item.Image == nil:
		return Score{}, ErrNoImage
	case len(item.Sources) == 0:
		return Score{}, ErrNoSource
	}
	if err := sceneSize(item.Sources[0]); err != nil {
		return Score{}, err
	}
	made, err := sceneSized(item.Image)
	if err != nil {
		return Score{}, err
	}
	edit, err := r.Target(item.Prompt, item.Meta)
	if err != nil {
		return Score{}, err
	}
	done, kept, err := edit.Score(item.Sources[0].Pix, made.Pix)
	parts := map[string]float64{string(OfBoth): done * kept, string(OfDone): done, string(OfKept): kept}
	value := parts[string(r.Of)]
	delete(parts, string(OfBoth))
	return Score{Value: value, Parts: parts}, err
}

// sceneSized is a picture of the scene's side, enlarged where it is a smaller square.
func sceneSized(m *vision.Image) (*vision.Image, error) {
	if m.Width < scenes.Size && (SceneEdit{}).Judges(m.Width, m.Height) {
		return m.Resize(scenes.Size, scenes.Size, vision.Lanczos)
	}
	return m, sceneSize(m)
}

// Judges reports whether samples of a size are judged.
func (SceneEdit) Judges(width, height int) bool {
	return width == height && width >= scenes.Size/2 && width <= scenes.Size
}

// Target is the edit that a prompt asks for.
func (SceneEdit) Target(prompt string, meta Meta) (scenes.Edit, error) {
	caption, err := meta.Text("scene")
	if err != nil {
		return scenes.Edit{}, err
	}
	return scenes.EditOf(caption, prompt)
}

// edited is a kind that judges edits by some of their parts.
func edited(name, card string, of EditPart) Kind {
	return Kind{
		Name:   name,
		Card:   card,
		Paper:  "Darkroom's embedded scenes",
		Parts:  []string{string(OfDone), string(OfKept)},
		Judges: Pictures,
		Traits: Scenes | Edits,
		Bounds: Unit,
		Needs:  Always(func(p Prompt) error { _, err := SceneEdit{}.Target(p.Text, p.Meta); return err }),
		Open:   Plain(SceneEdit{Of: of}),
	}
}

// Rewards of edits.
var (
	EditKind     = edited("edit", "Edits of embedded scenes: how well what the prompt asks for is done, times the share of everything else that is as it was, the mean of the other object's and the ground's; meta.scene is the caption of the picture before.", OfBoth)
	EditDoneKind = edited("edit_done", "The first half of edit alone: whether what the prompt asks for is done, whatever becomes of the rest; drawing everything anew games it.", OfDone)
	EditKeptKind = edited("edit_kept", "The second half of edit alone: the share of the other object, and of the ground, that is as it was; changing nothing games it.", OfKept)
)
