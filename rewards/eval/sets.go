package eval

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// A Pair is two samples of one prompt, and which is better.
type Pair struct {
	Prompt string
	Kind   string // of difference, such as "blur"; "" where nobody said
	A, B   Sample // of the prompt
	Better Better
}

// A Sample is an item with a name: items of one name under one prompt are the same sample. It is opened when it is
// asked about, so that a set may be larger than memory.
type Sample struct {
	Name string
	Open func() (rewards.Item, error)
}

// Held is a sample that lies in memory.
func Held(name string, item rewards.Item) Sample {
	return Sample{name, func() (rewards.Item, error) { return item, nil }}
}

// Better says which of a pair is.
type Better int8

// The three answers.
const (
	Tie Better = iota
	First
	Second
)

// ParseBetter reads "a", "b" and "tie".
func ParseBetter(text string) (Better, error) {
	switch text {
	case "a":
		return First, nil
	case "b":
		return Second, nil
	case "tie":
		return Tie, nil
	}
	return Tie, fmt.Errorf(`better is %q: it is "a", "b" or "tie"`, text)
}

// sign is 1 where the first is better, -1 where the second is.
func (b Better) sign() float64 { return [...]float64{0, 1, -1}[b] }

// Kinds of samples.
const (
	Pictures = "pictures"
	Moving   = "clips"
	Replies  = "replies"
)

// A Set is pairs with a name, all of one kind.
type Set struct {
	Name   string
	Of     string // Pictures, Moving or Replies
	Layout string // of a published collection; "": pairs of the program, or of one's own
	Pairs  []Pair
}

// Sum is SHA-256 of the pairs: their prompts, kinds and labels, and names of samples. Pictures are not in it.
func (s Set) Sum() string {
	h := sha256.New()
	for _, p := range s.Pairs {
		fmt.Fprintf(h, "%q %q %q %q %d\n", p.Prompt, p.Kind, p.A.Name, p.B.Name, p.Better)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// prompts numbers the prompts of pairs as they come.
func prompts(pairs []Pair) (of []int, n int) {
	number := map[string]int{}
	for _, p := range pairs {
		k, ok := number[p.Prompt]
		if !ok {
			k = len(number)
			number[p.Prompt] = k
		}
		of = append(of, k)
	}
	return of, len(number)
}

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

// Card: pairs of drawn clips. 20 captions, "a red disc that moves to the right": a disc with a
// pattern goes its way over a ground of waves, 8 frames of 64 x 64, 8 a second. The clip as it
// is asked for is better than
//
//	still     its middle frame all the time
//	flicker   the same motion under light that goes up and down
//	noise     the same motion under noise that is new in each frame
//	jump      a disc that leaps ahead once in the middle
//	slow      a disc that hardly moves
//
// and as good as the same with another ground (tie). Which comes first is drawn.

const (
	clipCaptions = 20
	clipSide     = 64
	clipFrames   = 8
)

var (
	clipColors = []struct {
		name string
		rgb  [3]float64
	}{{"red", [3]float64{200, 60, 50}}, {"green", [3]float64{60, 160, 80}}, {"blue", [3]float64{60, 90, 200}}, {"yellow", [3]float64{220, 190, 60}}, {"purple", [3]float64{140, 70, 170}}}
	clipWays = []struct {
		name   string
		dx, dy float64
	}{{"to the right", 1, 0}, {"to the left", -1, 0}, {"down", 0, 1}, {"up", 0, -1}}
)

// Clips are the pairs of clips.
func Clips() Set {
	set := Set{Name: ClipSet, Of: Moving}
	key := rng.New(12).With("clip pairs")
	for i := range clipCaptions {
		color, way := clipColors[i%len(clipColors)], clipWays[i/len(clipColors)%len(clipWays)]
		k := key.Sample(i)
		m := mover{prompt: fmt.Sprintf("a %s disc that moves %s", color.name, way.name), key: k, color: color.rgb,
			dx: way.dx, dy: way.dy, pace: 2 + 1.5*k.With("pace").Draw().Float64(), ground: waves(k.With("ground")), pattern: waves(k.With("pattern"))}
		set.Pairs = append(set.Pairs, m.pairs()...)
	}
	return set
}

// mover draws clips of a caption.
type mover struct {
	prompt          string
	key             rng.Key
	color           [3]float64
	dx, dy, pace    float64
	ground, pattern pattern
}

// A pattern is smooth, and between -1 and 1, about.
type pattern func(x, y float64) float64

// waves is a pattern of a few waves.
func waves(key rng.Key) pattern {
	r := key.Draw()
	var all [8][3]float64
	for i := range all {
		long, angle := 7*portable.Pow(5, r.Float64()), math.Pi*r.Float64()
		all[i] = [3]float64{2 * math.Pi / long * portable.Cos(angle), 2 * math.Pi / long * portable.Sin(angle), 2 * math.Pi * r.Float64()}
	}
	return func(x, y float64) float64 {
		sum := 0.0
		for _, w := range all {
			sum += portable.Cos(w[0]*x+w[1]*y+w[2]) / 4
		}
		return sum
	}
}

// draw is a clip whose disc is at this distance from the middle, in pixels, at each frame.
func (m mover) draw(away func(t int) float64) *video.Clip {
	c := &video.Clip{Width: clipSide, Height: clipSide, Rate: video.Rate{Num: 8, Den: 1}}
	var ground [clipSide * clipSide]float64
	for p := range ground {
		ground[p] = 128 + 35*m.ground(float64(p%clipSide), float64(p/clipSide))
	}
	for t := range clipFrames {
		f := make([]uint8, 3*clipSide*clipSide)
		cx, cy := clipSide/2+m.dx*away(t), clipSide/2+m.dy*away(t)
		for p := range clipSide * clipSide {
			x, y := float64(p%clipSide)-cx, float64(p/clipSide)-cy
			// The edge is one pixel soft, so that motion of a part of a pixel can be seen.
			inside := min(max(13.5-portable.Hypot(x, y), 0), 1)
			disc := 0.0
			if inside > 0 {
				disc = 40 * m.pattern(x, y)
			}
			for k, v := range m.color {
				f[3*p+k] = levels(ground[p] + inside*(v+disc-ground[p]))
			}
		}
		c.Frames = append(c.Frames, f)
	}
	return c
}

// middle is the time at which the disc is in the middle.
const middle = (clipFrames - 1) / 2.0

func (m mover) pairs() []Pair {
	a := &artist{key: m.key}
	a.scene.Prompt = m.prompt
	steady := func(t int) float64 { return m.pace * (float64(t) - middle) }
	asked := m.draw(steady)
	right := m.sample("moves", asked)
	elsewhere := m
	elsewhere.ground = waves(m.key.With("other ground"))
	a.pair("still", right, m.sample("stands still", stilled(asked, nil)), First)
	a.pair("flicker", right, m.sample("flickers", lit(asked)), First)
	a.pair("noise", right, m.sample("noise", noisy(asked, m.key.With("noise"))), First)
	a.pair("jump", right, m.sample("jumps", m.draw(func(t int) float64 { return 11 * sign(float64(t)-middle) })), First)
	a.pair("slow", right, m.sample("hardly moves", m.draw(func(t int) float64 { return 0.12 * steady(t) })), First)
	a.pair("tie", right, m.sample("moves elsewhere", elsewhere.draw(steady)), Tie)
	return a.pairs
}

func (m mover) sample(name string, c *video.Clip) Sample {
	return Held(name, rewards.Item{Prompt: m.prompt, Clip: c})
}

func lit(c *video.Clip) *video.Clip {
	out := *c
	out.Frames = nil
	for t, f := range c.Frames {
		f = slices.Clone(f)
		for i, v := range f {
			f[i] = levels(float64(v) + 14*portable.Cos(2.1*float64(t)))
		}
		out.Frames = append(out.Frames, f)
	}
	return &out
}

func noisy(c *video.Clip, key rng.Key) *video.Clip {
	out := *c
	out.Frames = nil
	noise := make([]float32, len(c.Frames[0]))
	for t, f := range c.Frames {
		key.Step(t).Normal(noise, 0)
		f = slices.Clone(f)
		for i, v := range f {
			f[i] = levels(float64(v) + 18*float64(noise[i]))
		}
		out.Frames = append(out.Frames, f)
	}
	return &out
}
