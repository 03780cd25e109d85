// Package scenes draws captioned pictures by rule, with the truth beside them:
// which objects lie where, which word is written. They are the training data of
// the embedded models, and the ground on which rewards are judged.
//
//	s := scenes.Random(rng.New(7).With("scene").Draw(), scenes.Everything)
//	px := s.Draw(scenes.Jitter(rng.New(7).With("jitter").Draw()))
//	score := s.Score(px)          // Task, Strict, Clean, Total
//
// Parse reads a Scene back from its caption, Corrupt makes captions wrong, as captions of the web are. draw.go
// makes pixels, score.go judges any pixels against a scene, without a learnt model.
//
// Pictures are Size x Size pixels of three bytes, row by row. Boxes are
// [x0, y0, x1, y1] in pixels, y downwards.
package scenes

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Size is the side of a picture.
const Size = 64

// The vocabulary of captions.
var (
	Colors      = []string{"red", "green", "blue", "yellow", "purple"}
	Backgrounds = []string{"white", "black", "gray"}
	Shapes      = []string{"circle", "square", "triangle"}
	Relations   = []string{"left of", "right of", "above", "below"}
	Numbers     = []string{"one", "two", "three", "four"}
	Letters     = "ACDEGNOPRSTU"
	Words       = strings.Fields("CAT DOG SUN CAR PEN CUP ANT TOE EGG NET NUT RAT POT TOP RUG SEA TEA ARC ART APE EAT DEN GAS GAP NAP PAN " +
		"PEA PET GUN OAT ACE AGE END DOT COD GOD ODD ADD NOD POD ROD RAN ROT TAG TAN TAP SAD SAT SET SPA")
)

// Family is a kind of scene.
type Family string

// The families.
const (
	One      Family = "one"      // a red circle on white
	Relation Family = "relation" // a red circle left of a blue square on white
	Count    Family = "count"    // three red circles on white
	Word     Family = "word"     // the word "CAT" in red on white
)

// Scene is the content of a caption.
type Scene struct {
	Family     Family
	Prompt     string
	Background string
	Objects    []Object
	// Of a word:
	Text, Color string
	Box         Box // where it is written
}

// Object is one thing in a scene, in its canonical place.
type Object struct {
	Color, Shape string
	Box          Box
}

// Box is x0, y0, x1, y1.
type Box [4]float64

func around(cx, cy, side float64) Box {
	half := float64(side / 2)
	return Box{cx - half, cy - half, cx + half, cy + half}
}

// places are the canonical centres of both objects of a relation.
var places = map[string][2][2]float64{
	"left of": {{16, 32}, {48, 32}}, "right of": {{48, 32}, {16, 32}},
	"above": {{32, 16}, {32, 48}}, "below": {{32, 48}, {32, 16}},
}

// relationSide is the side of the objects of a relation.
const relationSide = 22

// counted are the centres and the side of n equal objects.
var counted = [5]struct {
	side    float64
	centres [][2]float64
}{
	1: {32, [][2]float64{{32, 32}}},
	2: {22, [][2]float64{{16, 32}, {48, 32}}},
	3: {16, [][2]float64{{12, 32}, {32, 32}, {52, 32}}},
	4: {20, [][2]float64{{16, 16}, {48, 16}, {16, 48}, {48, 48}}},
}

// NewRelation is two objects beside each other.
func NewRelation(color, shape, relation, otherColor, otherShape, background string) Scene {
	at := places[relation]
	return Scene{Family: Relation, Background: background,
		Prompt: fmt.Sprintf("a %s %s %s a %s %s on %s", color, shape, relation, otherColor, otherShape, background),
		Objects: []Object{{color, shape, around(at[0][0], at[0][1], relationSide)},
			{otherColor, otherShape, around(at[1][0], at[1][1], relationSide)}}}
}

// NewCount is one to four equal objects.
func NewCount(n int, color, shape, background string) Scene {
	s := Scene{Family: One, Background: background, Prompt: fmt.Sprintf("a %s %s on %s", color, shape, background)}
	if n > 1 {
		s.Family, s.Prompt = Count, fmt.Sprintf("%s %s %ss on %s", Numbers[n-1], color, shape, background)
	}
	for _, c := range counted[n].centres {
		s.Objects = append(s.Objects, Object{color, shape, around(c[0], c[1], counted[n].side)})
	}
	return s
}

// NewWord is a word of Letters in the built-in font.
func NewWord(text, color, background string) Scene {
	w := float64(cell * len(text))
	return Scene{Family: Word, Background: background, Text: text, Color: color,
		Prompt: fmt.Sprintf("the word %q in %s on %s", text, color, background),
		Box:    Box{32 - float64(w/2), 32 - cell/2, 32 + float64(w/2), 32 + cell/2}}
}

// Mix says how often each family is drawn, and which words; no words means half from Words,
// half any three letters.
type Mix struct {
	One, Relation, Count, Word float64
	Words                      []string
}

// Everything is the mix that the embedded models are trained on.
var Everything = Mix{One: 0.1, Relation: 0.45, Count: 0.2, Word: 0.25}

// Random is a scene of the mix.
func Random(r *rng.Stream, m Mix) Scene {
	u := r.Float64() * (m.One + m.Relation + m.Count + m.Word)
	background := pick(r, Backgrounds)
	switch {
	case u < m.One:
		return NewCount(1, pick(r, Colors), pick(r, Shapes), background)
	case u < m.One+m.Relation:
		first := r.Intn(len(Colors))
		second := (first + 1 + r.Intn(len(Colors)-1)) % len(Colors)
		return NewRelation(Colors[first], pick(r, Shapes), pick(r, Relations), Colors[second], pick(r, Shapes), background)
	case u < m.One+m.Relation+m.Count:
		return NewCount(2+r.Intn(3), pick(r, Colors), pick(r, Shapes), background)
	}
	text := ""
	switch {
	case m.Words != nil:
		text = pick(r, m.Words)
	case r.Float64() < 0.5:
		text = pick(r, Words)
	default:
		for range 3 {
			text += string(Letters[r.Intn(len(Letters))])
		}
	}
	return NewWord(text, pick(r, Colors), background)
}

func pick(r *rng.Stream, xs []string) string { return xs[r.Intn(len(xs))] }

// HeldOut reports whether a caption belongs to the eighth that is kept for evaluation: by its
// text, so that every program splits alike.
func HeldOut(prompt string) bool {
	h := fnv.New64a()
	h.Write([]byte(prompt))
	return h.Sum64()%8 == 0
}

// Parse is the scene of a caption.
func Parse(prompt string) (Scene, error) {
	bad := func(why string) (Scene, error) {
		return Scene{}, fmt.Errorf("%q is no scene (%s); scenes read like %q, %q, %q or %q", prompt, why,
			"a red circle on white", "a red circle left of a blue square on white", "three red circles on white", `the word "CAT" in red on white`)
	}
	f := strings.Fields(prompt)
	n := len(f)
	if n < 4 || f[n-2] != "on" || !slices.Contains(Backgrounds, f[n-1]) {
		return bad("it must end in on white, on black or on gray")
	}
	background, body := f[n-1], f[:n-2]
	if body[0] == "the" {
		text := ""
		if len(body) == 5 {
			text = strings.Trim(body[2], `"`)
		}
		if len(body) != 5 || body[1] != "word" || body[3] != "in" || body[2] != `"`+text+`"` || !slices.Contains(Colors, body[4]) {
			return bad("words need quotation marks and a colour")
		}
		if len(text) < 1 || len(text) > Size/cell || strings.Trim(text, Letters) != "" {
			return bad(fmt.Sprintf("a word has up to %d letters of %s", Size/cell, Letters))
		}
		return NewWord(text, body[4], background), nil
	}
	if i := slices.Index(Numbers, body[0]); i > 0 && len(body) == 3 {
		shape := strings.TrimSuffix(body[2], "s")
		if !slices.Contains(Colors, body[1]) || !slices.Contains(Shapes, shape) || shape == body[2] {
			return bad("a number wants a colour and shapes")
		}
		return NewCount(i+1, body[1], shape, background), nil
	}
	if body[0] != "a" || len(body) < 3 || !slices.Contains(Colors, body[1]) || !slices.Contains(Shapes, body[2]) {
		return bad("a wants a colour and a shape")
	}
	if len(body) == 3 {
		return NewCount(1, body[1], body[2], background), nil
	}
	rest := body[3:]
	if len(rest) < 4 {
		return bad("a relation wants a second object")
	}
	relation, second := strings.Join(rest[:len(rest)-3], " "), rest[len(rest)-3:]
	if !slices.Contains(Relations, relation) || second[0] != "a" || !slices.Contains(Colors, second[1]) || !slices.Contains(Shapes, second[2]) {
		return bad("relations are left of, right of, above, below a colour and a shape")
	}
	return NewRelation(body[1], body[2], relation, second[1], second[2], background), nil
}

// kinds are the attributes of captions: a word is replaced by another of its kind.
var kinds = [][]string{Colors, Shapes, {"circles", "squares", "triangles"}, Relations, {"two", "three", "four"}}

// attributes finds whole words of each kind.
var attributes = func() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, k := range kinds {
		out = append(out, regexp.MustCompile(`\b(`+strings.Join(k, "|")+`)\b`))
	}
	return out
}()

// Corrupt is a caption with one attribute wrong (colour, shape, relation, number or letter),
// as captions of the web are: a model that learns from such captions is often wrong in one
// attribute, and so has room for reinforcement learning.
func Corrupt(prompt string, r *rng.Stream) string {
	type hit struct {
		kind   []string
		lo, hi int
	}
	var hits []hit
	for i, re := range attributes {
		for _, m := range re.FindAllStringIndex(prompt, -1) {
			hits = append(hits, hit{kinds[i], m[0], m[1]})
		}
	}
	if at := strings.IndexByte(prompt, '"'); at >= 0 {
		if n := strings.IndexByte(prompt[at+1:], '"'); n > 0 {
			at += 1 + r.Intn(n)
			hits = append(hits, hit{strings.Split(Letters, ""), at, at + 1})
		}
	}
	if len(hits) == 0 {
		return prompt
	}
	h := hits[r.Intn(len(hits))]
	old := prompt[h.lo:h.hi]
	for {
		if x := h.kind[r.Intn(len(h.kind))]; x != old {
			return prompt[:h.lo] + x + prompt[h.hi:]
		}
	}
}
