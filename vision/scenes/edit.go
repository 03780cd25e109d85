package scenes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// An Edit is a scene of two objects, and the change of one of them:
//
//	make the circle red      remove the square      move the triangle up
//
// Objects are named by their shapes, which differ.
type Edit struct {
	Text          string
	Before, After Scene
	Touched       []Box // where a picture may change

	asked Object // the object afterwards; no shape: nothing
}

// directions are how far an object is moved.
var directions = map[string][2]float64{"up": {0, -14}, "down": {0, 14}, "left": {-14, 0}, "right": {14, 0}}

// RandomEdit is one of a scene with two shapes. An object is moved across the line on which both stand.
func RandomEdit(r *rng.Stream) Edit {
	shapes := slices.Clone(Shapes)
	at := r.Intn(len(shapes))
	first := shapes[at]
	second := pick(r, slices.Delete(shapes, at, at+1))
	color := r.Intn(len(Colors))
	other := (color + 1 + r.Intn(len(Colors)-1)) % len(Colors)
	relation := pick(r, Relations)
	before := NewRelation(Colors[color], first, relation, Colors[other], second, pick(r, Backgrounds))
	text := before.editText(r)
	e, err := EditOf(before.Prompt, text)
	if err != nil {
		panic(err) // written above
	}
	return e
}

// editText is an edit of one of a relation's two objects, as EditOf reads it.
func (s Scene) editText(r *rng.Stream) string {
	target := s.Objects[r.Intn(2)].Shape
	switch r.Intn(3) {
	case 0:
		free := slices.DeleteFunc(slices.Clone(Colors), func(c string) bool { return c == s.Objects[0].Color || c == s.Objects[1].Color })
		return fmt.Sprintf("make the %s %s", target, pick(r, free))
	case 1:
		return "remove the " + target
	}
	ways := []string{"up", "down"}
	if s.Objects[0].Box[0] == s.Objects[1].Box[0] {
		ways = []string{"left", "right"}
	}
	return fmt.Sprintf("move the %s %s", target, pick(r, ways))
}

// Begins reports whether the first word of the edit's text is one of some.
func (e Edit) Begins(verbs []string) bool { return slices.Contains(verbs, strings.Fields(e.Text)[0]) }

// EditOf is the change that a text asks for in the scene of a caption.
func EditOf(caption, text string) (Edit, error) {
	bad := func(why string) (Edit, error) {
		return Edit{}, fmt.Errorf("%q is no edit of %q (%s); edits read like %q, %q or %q", text, caption, why, "make the circle red", "remove the square", "move the triangle up")
	}
	before, err := Parse(caption)
	if err != nil {
		return Edit{}, err
	}
	f := strings.Fields(text)
	if len(f) < 3 || f[1] != "the" {
		return bad("it names no object")
	}
	i := slices.IndexFunc(before.Objects, func(o Object) bool { return o.Shape == f[2] })
	if i < 0 {
		return bad("there is no such shape")
	}
	o := before.Objects[i]
	e := Edit{Text: text, Before: before, After: before, Touched: []Box{o.Box}}
	e.After.Prompt, e.After.Objects = "", slices.Clone(before.Objects)
	switch way, moves := directions[f[len(f)-1]]; {
	case f[0] == "remove" && len(f) == 3:
		e.After.Objects = slices.Delete(e.After.Objects, i, i+1)
		return e, nil
	case f[0] == "make" && len(f) == 4 && slices.Contains(Colors, f[3]):
		o.Color = f[3]
	case f[0] == "move" && len(f) == 4 && moves:
		o.Box = Box{o.Box[0] + way[0], o.Box[1] + way[1], o.Box[2] + way[0], o.Box[3] + way[1]}
		e.Touched = append(e.Touched, o.Box)
	default:
		return bad("it asks for nothing that is known")
	}
	e.After.Objects[i], e.asked = o, o
	return e, nil
}

// rim is how many pixels around a touched box belong to it: objects were drawn a little off their places.
const rim = 4

// touched reports whether a pixel may change.
func (e Edit) touched(i int) bool {
	x, y := float64(i%Size), float64(i/Size)
	return slices.ContainsFunc(e.Touched, func(b Box) bool {
		return x >= b[0]-rim && x < b[2]+rim && y >= b[1]-rim && y < b[3]+rim
	})
}

// same is the largest change of a pixel's level that counts as kept.
const same = 24

// Score judges a picture that was made of another: how much of the wanted change is done, 0 where nothing is better
// than before, and how much else is unchanged.
func (e Edit) Score(before, after []uint8) (done, kept float64, err error) {
	if err := errors.Join(sized(before), sized(after)); err != nil {
		return 0, 0, err
	}
	began := e.done(before)
	return max(0, e.done(after)-began) / (1 - min(began, 0.99)), e.kept(before, after), nil
}

// kept is the mean of two shares of the pixels that may not change: of those of the other object, and of the
// ground's, of which there are several times as many. A share counts unchanged pixels.
func (e Edit) kept(before, after []uint8) float64 {
	ground := background(e.Before.Background)
	var left, all [2]float64 // of objects, of the ground
	for i := range Size * Size {
		if e.touched(i) {
			continue
		}
		was, of := before[3*i:3*i+3], 0
		if alike(was, ground[:]) {
			of = 1
		}
		all[of]++
		if alike(was, after[3*i:3*i+3]) {
			left[of]++
		}
	}
	sum, n := 0.0, 0.0
	for of := range all {
		if all[of] > 0 {
			sum, n = sum+left[of]/all[of], n+1
		}
	}
	return sum / max(1, n)
}

// alike reports whether no level of a pixel changed by more than same.
func alike(a, b []uint8) bool {
	return max(difference(a[0], b[0]), difference(a[1], b[1]), difference(a[2], b[2])) <= same
}

// done is the score of the wanted object afterwards: in the pixels that may change, the object in its place and
// nothing else, or the share of the background.
func (e Edit) done(px []uint8) float64 {
	inside, ground := slices.Clone(px), background(e.Before.Background)
	for i := range Size * Size {
		if !e.touched(i) {
			copy(inside[3*i:], ground[:])
		}
	}
	seg := segment(inside)
	if e.asked.Shape != "" {
		found, _ := seg.layout(Scene{Objects: []Object{e.asked}, Background: e.Before.Background})
		return found
	}
	empty, all := 0, 0
	k := uint8(len(Colors) + slices.Index(Backgrounds, e.Before.Background))
	for i, near := range seg.near {
		if e.touched(i) {
			if all++; near == k {
				empty++
			}
		}
	}
	return float64(empty) / float64(all)
}

func difference(a, b uint8) uint8 { return max(a, b) - min(a, b) }

// A Made is the content of a pair of pictures, beside the text of an edit.
type Made string

// Kinds of pairs. Collections of edits that generators made have all of them.
const (
	Requested Made = "asked"  // the change of the text, and nothing else
	Redone    Made = "redone" // the change of the text, and everything else anew: another ground, another second object
	Kept      Made = "kept"   // nothing has changed
	Other     Made = "other"  // another edit
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
			panic(err) // editText writes texts that EditOf reads
		}
		return o
	}
}

// anew is the scene afterwards, where everything but the wanted change is another.
func (e Edit) anew(r *rng.Stream) Scene {
	s := e.After
	if e.asked.Shape != "" { // where something is removed, the ground is wanted
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
