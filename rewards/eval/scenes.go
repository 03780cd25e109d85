package eval

import (
	"errors"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// Card: pairs of drawn scenes, for which nobody has to say which is better. 32 captions that no
// embedded model was trained on; of each caption
//
//	caption   a scene of the caption, and one of the caption with an attribute wrong
//	part      the scene, and one without an object, or whose word lacks its last letter
//	damage    the scene, and the same drawing damaged (three kinds of scenes.Degradations a
//	          caption, in turn)
//	degree    the drawing damaged a little, and damaged much
//	tie       two drawings with other places and sizes
//
// Which of a pair comes first is drawn. Every program makes the same bytes (test).
const (
	sceneCaptions = 32
	damagesEach   = 3
)

// SceneSet and ClipSet are the names of the sets that are part of the program.
const (
	SceneSet = "embed:scene-pairs"
	ClipSet  = "embed:clip-pairs"
)

// ErrNoSet says that there is no such embedded set.
var ErrNoSet = errors.New("no set of pairs is embedded under this name")

// Embedded is a set that is part of the program.
func Embedded(name string) (Set, error) {
	switch name {
	case SceneSet:
		return Scenes(), nil
	case ClipSet:
		return Clips(), nil
	}
	return Set{}, fmt.Errorf("%w: %s; there are %s and %s", ErrNoSet, name, SceneSet, ClipSet)
}

// Scenes are the pairs of pictures.
func Scenes() Set {
	set := Set{Name: SceneSet, Of: Pictures}
	key := rng.New(11).With("scene pairs")
	seen := map[string]bool{}
	for i := 0; len(seen) < sceneCaptions; i++ {
		s := scenes.Random(key.With("scene").Sample(i).Draw(), scenes.Everything)
		if seen[s.Prompt] || !scenes.HeldOut(s.Prompt) {
			continue
		}
		seen[s.Prompt] = true
		set.Pairs = append(set.Pairs, pairsOf(s, len(seen)-1, key.Sample(len(seen)))...)
	}
	return set
}

// artist draws samples of a caption.
type artist struct {
	scene scenes.Scene
	key   rng.Key
	pairs []Pair
}

func pairsOf(s scenes.Scene, number int, key rng.Key) []Pair {
	a := &artist{scene: s, key: key}
	drawn := s.Draw(scenes.Jitter(key.With("places").Draw()))
	other := scenes.Jitter(key.With("other places").Draw())
	right := a.sample("drawn", drawn)
	if wrong, err := scenes.Parse(scenes.Corrupt(s.Prompt, key.With("wrong").Draw())); err == nil {
		a.pair("caption", right, a.sample("wrong attribute", wrong.Draw(other)), First)
	}
	a.pair("part", right, a.sample("part missing", without(s).Draw(other)), First)
	for k := range damagesEach {
		kind := scenes.Degradations[(number*damagesEach+k)%len(scenes.Degradations)]
		r := key.With("damage").Sample(k).Draw()
		a.pair(kind, right, a.damaged(drawn, kind, 0.3+0.6*r.Float64(), k), First)
	}
	kind := scenes.Degradations[number%len(scenes.Degradations)]
	a.pair("degree", a.damaged(drawn, kind, 0.1, damagesEach), a.damaged(drawn, kind, 0.9, damagesEach), First)
	a.pair("tie", right, a.sample("drawn elsewhere", s.Draw(other)), Tie)
	return a.pairs
}

// without is a scene that lacks its last object, or letter.
func without(s scenes.Scene) scenes.Scene {
	if s.Family == scenes.Word {
		return scenes.NewWord(s.Text[:len(s.Text)-1], s.Color, s.Background)
	}
	s.Objects = s.Objects[:len(s.Objects)-1]
	return s
}

func (a *artist) sample(name string, px []uint8) Sample {
	return Held(name, rewards.Item{Prompt: a.scene.Prompt, Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: px}})
}

func (a *artist) damaged(px []uint8, kind string, strength float64, k int) Sample {
	out, err := scenes.Degrade(slices.Clone(px), kind, strength, a.key.With("damage").Sample(k).Attempt(1).Draw())
	if err != nil {
		out = px // a kind of the list, of a strength that there is
	}
	return a.sample(fmt.Sprintf("%s %.2f", kind, strength), out)
}

// pair puts two samples in an order that is drawn.
func (a *artist) pair(kind string, x, y Sample, better Better) {
	p := Pair{Prompt: a.scene.Prompt, Kind: kind, A: x, B: y, Better: better}
	if a.key.With("order").Sample(len(a.pairs)).Draw().Intn(2) == 1 {
		p.A, p.B = y, x
		if better == First {
			p.Better = Second
		}
	}
	a.pairs = append(a.pairs, p)
}
