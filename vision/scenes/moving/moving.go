// Package moving draws short clips by rule, with captions that say how something moves: training data and rewards of
// the embedded model of clips.
//
//	s := moving.Random(stream)                        // "a red circle moves left fast on white"
//	clip := moving.Small.Draw(s, moving.Small.Jitter(stream))  // five frames of 32 x 32
//	v := s.Velocity()                                 // pixels a frame, rightwards and downwards
package moving

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/video"
)

// Rate is the frames a second of every clip.
const Rate = 16

// A Format is the shape of clips, and of the things in them.
type Format struct {
	Size, Frames   int     // of a frame's side, in pixels; of a clip
	Least, Largest float64 // half a side of things
	Soft           float64 // the width of an edge, in pixels, so that few components of patches keep its place
	Away           float64 // the furthest from the middle, in pixels, to each side
}

// Formats of clips. Things cross a third of a frame at most, so that they stay within it.
var (
	Small = Format{Size: 32, Frames: 5, Least: 5, Largest: 6, Soft: 1.75, Away: 1}
	Large = Format{Size: 64, Frames: 9, Least: 7, Largest: 8.5, Soft: 3, Away: 3}
)

// Sized is the format whose frames have this side.
func Sized(side int) (Format, bool) {
	for _, f := range []Format{Small, Large} {
		if f.Size == side {
			return f, true
		}
	}
	return Format{}, false
}

// Words of captions.
var (
	Colors      = []string{"red", "green", "blue"}
	Shapes      = []string{"circle", "square"}
	Headings    = []string{"left", "right", "up", "down"}
	Paces       = []string{"slowly", "fast"}
	Backgrounds = []string{"white", "black"}
)

var (
	inks    = map[string][3]uint8{"red": {220, 40, 40}, "green": {40, 160, 60}, "blue": {50, 80, 220}, "white": {245, 245, 245}, "black": {15, 15, 15}}
	ways    = map[string][2]float64{"left": {-1, 0}, "right": {1, 0}, "up": {0, -1}, "down": {0, 1}}
	lengths = map[string]float64{"slowly": 1, "fast": 2.25}
)

// A Scene is a thing that moves, and that turns half way where Then names another heading.
type Scene struct{ Color, Shape, Heading, Pace, Then, Background string }

// Prompt is its caption.
func (s Scene) Prompt() string {
	if s.Then != "" {
		return fmt.Sprintf("a %s %s moves %s then %s %s on %s", s.Color, s.Shape, s.Heading, s.Then, s.Pace, s.Background)
	}
	return fmt.Sprintf("a %s %s moves %s %s on %s", s.Color, s.Shape, s.Heading, s.Pace, s.Background)
}

// Velocity is how far the thing goes from frame to frame before it turns, in pixels.
func (s Scene) Velocity() [2]float64 { return velocity(s.Heading, s.Pace) }

// Legs are the velocities of equal parts of the clip, one after another.
func (s Scene) Legs() [][2]float64 {
	if s.Then == "" {
		return [][2]float64{s.Velocity()}
	}
	return [][2]float64{s.Velocity(), velocity(s.Then, s.Pace)}
}

func velocity(heading, pace string) [2]float64 {
	w, n := ways[heading], lengths[pace]
	return [2]float64{w[0] * n, w[1] * n}
}

// ErrUnknown reports a text that is not a caption of a moving scene.
var ErrUnknown = errors.New(`this is no caption of a moving scene, such as "a red circle moves left fast on white"`)

// Parse reads a caption.
func Parse(prompt string) (Scene, error) {
	w, then := strings.Fields(prompt), ""
	if len(w) == 10 && w[5] == "then" && w[6] != w[4] && slices.Contains(Headings, w[6]) {
		w, then = slices.Concat(w[:5], w[7:]), w[6]
	}
	if len(w) != 8 {
		return Scene{}, ErrUnknown
	}
	s := Scene{w[1], w[2], w[4], w[5], then, w[7]}
	known := slices.Contains(Colors, s.Color) && slices.Contains(Shapes, s.Shape) && slices.Contains(Headings, s.Heading) &&
		slices.Contains(Paces, s.Pace) && slices.Contains(Backgrounds, s.Background)
	if !known || s.Prompt() != prompt {
		return Scene{}, ErrUnknown
	}
	return s, nil
}

// All are all scenes without a turn, in the order of their words.
func All() (all []Scene) {
	for _, c := range Colors {
		for _, shape := range Shapes {
			for _, h := range Headings {
				for _, p := range Paces {
					for _, b := range Backgrounds {
						all = append(all, Scene{c, shape, h, p, "", b})
					}
				}
			}
		}
	}
	return all
}

// Turning are all scenes: each of All, and then its turns.
func Turning() (all []Scene) {
	for _, s := range All() {
		all = append(all, s)
		for _, h := range Headings {
			if h != s.Heading {
				s.Then = h
				all = append(all, s)
			}
		}
	}
	return all
}

// HeldOut reports whether a caption is kept for evaluation: about one in six.
func HeldOut(prompt string) bool {
	h := fnv.New32a()
	h.Write([]byte(prompt))
	return h.Sum32()%6 == 0
}

// Random draws a scene.
func Random(r *rng.Stream) Scene {
	pick := func(of []string) string { return of[r.Intn(len(of))] }
	return Scene{pick(Colors), pick(Shapes), pick(Headings), pick(Paces), "", pick(Backgrounds)}
}

// Turned is the scene with a turn drawn for it.
func (s Scene) Turned(r *rng.Stream) Scene {
	s.Then = other(Headings, s.Heading, r)
	return s
}

// Corrupt is the scene with another heading, or now and then another pace: typical mistakes of people who write
// captions of clips.
func (s Scene) Corrupt(r *rng.Stream) Scene {
	if r.Float64() < 0.3 {
		s.Pace = other(Paces, s.Pace, r)
		return s
	}
	was := s.Heading
	if s.Heading = other(Headings, was, r); s.Heading == s.Then {
		s.Then = was
	}
	return s
}

// other is a word of a list that is not this one.
func other(of []string, not string, r *rng.Stream) string {
	i := slices.Index(of, not)
	return of[(i+1+r.Intn(len(of)-1))%len(of)]
}

// A Place is where a scene's thing is, from the middle of the frame, and half its side.
type Place struct{ X, Y, Half float64 }

// Jitter draws a place.
func (f Format) Jitter(r *rng.Stream) Place {
	away := func() float64 { return float64(2 * f.Away * (r.Float64() - 0.5)) }
	x, y := away(), away()
	return Place{X: x, Y: y, Half: f.Least + float64((f.Largest-f.Least)*r.Float64())}
}

// fine is how many points a side a pixel is the mean of.
const fine = 4

// Draw is the clip of a thing whose way has a place in its middle.
func (f Format) Draw(s Scene, at Place) *video.Clip {
	way := f.way(s)
	low, high := way[0], way[0]
	for _, p := range way {
		for axis, v := range p {
			low[axis], high[axis] = min(low[axis], v), max(high[axis], v)
		}
	}
	return f.from(s, at, [2]float64{(low[0] + high[0]) / 2, (low[1] + high[1]) / 2})
}

// Begin is the clip of a thing that is at a place in the first frame, which does not say where the thing goes.
func (f Format) Begin(s Scene, at Place) *video.Clip { return f.from(s, at, [2]float64{}) }

// way is where the thing is in each frame, from where it begins.
func (f Format) way(s Scene) [][2]float64 {
	way, legs := make([][2]float64, f.Frames), s.Legs()
	for t := 1; t < f.Frames; t++ {
		v := legs[(t-1)*len(legs)/(f.Frames-1)]
		way[t] = [2]float64{way[t-1][0] + v[0], way[t-1][1] + v[1]}
	}
	return way
}

// from is the clip of a thing that is at a place where its way is this far from its beginning.
func (f Format) from(s Scene, at Place, gone [2]float64) *video.Clip {
	c := &video.Clip{Width: f.Size, Height: f.Size, Rate: video.Rate{Num: Rate, Den: 1}}
	middle := float64(f.Size) / 2
	for _, p := range f.way(s) {
		c.Frames = append(c.Frames, f.frame(s, middle+at.X+(p[0]-gone[0]), middle+at.Y+(p[1]-gone[1]), at.Half))
	}
	return c
}

// frame is the thing at a place.
func (f Format) frame(s Scene, x, y, half float64) []uint8 {
	px := make([]uint8, 0, 3*f.Size*f.Size)
	ink, ground := inks[s.Color], inks[s.Background]
	for row := range f.Size {
		for col := range f.Size {
			n := 0
			for i := range fine * fine {
				dx := float64(col) + 0.5 + float64(f.Soft*((float64(i%fine)+0.5)/fine-0.5)) - x
				dy := float64(row) + 0.5 + float64(f.Soft*((float64(i/fine)+0.5)/fine-0.5)) - y
				if s.covers(dx, dy, half) {
					n++
				}
			}
			for c := range 3 {
				px = append(px, uint8((n*int(ink[c])+(fine*fine-n)*int(ground[c])+fine*fine/2)/(fine*fine)))
			}
		}
	}
	return px
}

// Card: how well a frame shows the thing of a caption, wherever it is in the frame. Each pixel belongs to the ink that
// is nearest to its colour.
//
//	shape   of the pixels of the thing's ink and of the shape asked for, drawn around their middle with their area:
//	        the common pixels over the pixels of either
//	ground  of the other pixels but a rim around that shape: the share of the background's ink
//	value   shape·ground, times how plausible the area is: 1 between the least and the largest that are drawn,
//	        and less in proportion beyond
//
// Invariants (tests): a drawn frame is worth 0.89 or more, another colour or background nothing, another shape less.

// A Look is how well a frame shows its thing.
type Look struct{ Value, Shape, Ground float64 }

// Look compares a frame, pixels of RGB, with the caption.
func (f Format) Look(s Scene, px []uint8) Look {
	belongs := make([]string, f.Size*f.Size)
	var n, x, y float64
	for i := range belongs {
		if belongs[i] = nearest(px[3*i:]); belongs[i] == s.Color {
			n, x, y = n+1, x+float64(i%f.Size)+0.5, y+float64(i/f.Size)+0.5
		}
	}
	if n == 0 {
		return Look{Ground: s.share(belongs, func(int) bool { return true })}
	}
	x, y = x/n, y/n
	half := math.Sqrt(n) / 2
	if s.Shape == "circle" {
		half = math.Sqrt(n / math.Pi)
	}
	var both, either float64
	for i, ink := range belongs {
		in, is := s.covers(float64(i%f.Size)+0.5-x, float64(i/f.Size)+0.5-y, half), ink == s.Color
		if in && is {
			both++
		}
		if in || is {
			either++
		}
	}
	ground := s.share(belongs, func(i int) bool {
		return !s.covers(float64(i%f.Size)+0.5-x, float64(i/f.Size)+0.5-y, half+1.5)
	})
	l := Look{Shape: both / either, Ground: ground}
	l.Value = l.Shape * l.Ground * min(1, half/f.Least) * min(1, f.Largest/half)
	return l
}

// covers reports whether the thing covers a point, from its middle.
func (s Scene) covers(dx, dy, half float64) bool {
	if s.Shape == "circle" {
		return float64(dx*dx)+float64(dy*dy) <= half*half
	}
	return math.Max(math.Abs(dx), math.Abs(dy)) <= half
}

// share of some pixels that belong to the background.
func (s Scene) share(belongs []string, some func(i int) bool) float64 {
	of, n := 0.0, 0.0
	for i, ink := range belongs {
		if !some(i) {
			continue
		}
		if n++; ink == s.Background {
			of++
		}
	}
	return of / max(1, n)
}

// nearest is the ink whose colour is nearest to a pixel's.
func nearest(px []uint8) (name string) {
	best := math.MaxInt
	for _, ink := range palette {
		d := 0
		for c := range 3 {
			e := int(px[c]) - int(inks[ink][c])
			d += e * e
		}
		if d < best {
			name, best = ink, d
		}
	}
	return name
}

// palette are all inks, in the order in which ties are broken.
var palette = append(append([]string{}, Colors...), Backgrounds...)
