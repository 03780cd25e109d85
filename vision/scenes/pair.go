package scenes

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// A Made says what a pair of pictures shows, beside the text of an edit.
type Made string

// Kinds of pairs. Collections of edits that generators made have all of them.
const (
	Asked  Made = "asked"  // what the text says, and nothing else
	Redone Made = "redone" // what the text says, and everything else anew: another ground, another second object
	Kept   Made = "kept"   // nothing has changed
	Other  Made = "other"  // another edit
)

// Pair is the picture before an edit, and one after it.
// Objects that are in both are drawn equally far off their places.
func (e Edit) Pair(made Made, r *rng.Stream) (before, after []uint8) {
	off := map[string][3]float64{}
	shift := Jitter(r)
	for _, o := range e.Before.Objects {
		dx, dy, scale := shift(false, 3)
		off[o.Shape] = [3]float64{dx, dy, scale}
	}
	then := e.After
	switch made {
	case Kept:
		then = e.Before
	case Other:
		then = e.another(r).After
	case Redone:
		then = e.anew(r)
	}
	return e.Before.Draw(e.Before.placed(off)), then.Draw(then.placed(off))
}

// placed is a shift by objects' shapes.
func (s Scene) placed(off map[string][3]float64) Shift {
	next := 0
	return func(bool, float64) (dx, dy, scale float64) {
		at, there := off[s.Objects[next].Shape]
		next++
		if !there {
			return 0, 0, 1
		}
		return at[0], at[1], at[2]
	}
}

// another is an edit of the same scene with another text.
func (e Edit) another(r *rng.Stream) Edit {
	for {
		text := e.Before.editText(r)
		if text == e.Text {
			continue
		}
		o, err := EditOf(e.Before.Prompt, text)
		if err != nil {
			panic(err) // editText writes what EditOf reads
		}
		return o
	}
}

// anew is the scene afterwards, where everything but what was asked for is another.
func (e Edit) anew(r *rng.Stream) Scene {
	s := e.After
	if e.asked.Shape != "" { // where something is removed, the ground is what is asked for
		s.Background = pick(r, slices.DeleteFunc(slices.Clone(Backgrounds), func(b string) bool { return b == e.Before.Background }))
	}
	s.Objects = slices.Clone(s.Objects)
	for i, o := range s.Objects {
		if o == e.asked {
			continue
		}
		s.Objects[i].Color = pick(r, slices.DeleteFunc(slices.Clone(Colors), func(c string) bool { return c == o.Color || c == e.asked.Color }))
		s.Objects[i].Shape = pick(r, slices.DeleteFunc(slices.Clone(Shapes), func(c string) bool { return c == o.Shape || c == e.asked.Shape }))
	}
	return s
}
