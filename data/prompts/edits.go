package prompts

import (
	"encoding/json"
	"strconv"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Edits of drawn scenes: embed:edits and embed:edits-heldout, whose captions no training saw. image is the scene
// before, meta.scene its caption, and meta.changes the boxes in which a picture may change. embed:edits-in-place, with
// its held-out list, has those of them that move nothing.

// heldOutEdits is the number of the first that is held out.
const heldOutEdits = 10000

func editOf(n int) scenes.Edit {
	for try := 0; ; try++ {
		e := scenes.RandomEdit(rng.New(77).With("edits").Sample(n).Attempt(try).Draw())
		if scenes.HeldOut(e.Before.Prompt) == (n >= heldOutEdits) {
			return e
		}
	}
}

// sceneOf is the picture before an edit.
func sceneOf(n int) *vision.Image {
	jitter := rng.New(77).With("jitter of edits").Sample(n).Draw()
	return &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: editOf(n).Before.Draw(scenes.Jitter(jitter))}
}

// changed are those of n embedded edits, from number first on, whose texts begin with some verbs.
func changed(first, n int, verbs ...string) (list []Prompt) {
	for i := first; i < first+n; i++ {
		e, meta := editOf(i), map[string]json.RawMessage{}
		if !e.Begins(verbs) {
			continue
		}
		for key, v := range map[string]any{"scene": e.Before.Prompt, "changes": e.Touched} {
			meta[key], _ = json.Marshal(v) // texts and numbers
		}
		list = append(list, Prompt{Text: e.Text, Meta: MetaOf(meta), Image: Images{drawn + strconv.Itoa(i)}})
	}
	return list
}
