package rewards

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Heading judges whether a clip moves where its prompt asks, and as fast (motion.Heading has the formula). Motion is
// asked for by meta.motion = [x, y] in pixels a frame, rightwards and downwards, by a list of such for equal parts of
// the clip, one after another, by the caption of a moving scene, or by words of directions, at any speed: "a dog runs
// to the left", "upwards, then from left to right".
type Heading struct {
	MotionOptions        // of method "": Farneback's flow, which is steady on small frames
	Measure       string // "direction", "speed"; else both
}

// errAnySpeed refuses the speed of words.
var errAnySpeed = errors.New("the prompt's words ask for a direction at any speed\nhint: measure = \"direction\", or pixels a frame in meta.motion")

// errRest is why rest is not judged.
var errRest = errors.New("the prompt asks for no motion, which has no heading (reward flicker judges rest)")

// ways are the words of directions, but of those of a place: "to the left of".
var ways = regexp.MustCompile(`(?i)\b(?:(?:to(?:wards)? the|mov(?:es|ing)|go(?:es|ing)|dri(?:ves|ving)|run(?:s|ning)|walk(?:s|ing)|fl(?:ies|ying)|roll(?:s|ing)|slid(?:es|ing)) (left|right|up|down)|` +
	`(left|right|up|down)wards?|(?:from )?(?:left|right) to (left|right))\b`)

var wayNamed = map[string][2]float64{"left": {-1, 0}, "right": {1, 0}, "up": {0, -1}, "down": {0, 1}}

// directions are those in a prompt's words, in their order.
func directions(prompt string) (all [][2]float64) {
	for _, at := range ways.FindAllStringSubmatchIndex(prompt, -1) {
		if strings.HasPrefix(prompt[at[1]:], " of ") {
			continue
		}
		for k := 2; k < len(at); k += 2 {
			if at[k] >= 0 {
				all = append(all, wayNamed[strings.ToLower(prompt[at[k]:at[k+1]])])
			}
		}
	}
	return all
}

// Target is the motion that a prompt asks for, of equal parts of the clip; words ask for directions at any speed.
func (r Heading) Target(prompt string, meta Meta) (legs [][2]float64, anySpeed bool, err error) {
	var one [2]float64
	if s, other := moving.Parse(prompt); meta["motion"] == nil && other == nil {
		legs = s.Legs()
	} else if words := directions(prompt); meta["motion"] == nil && words != nil {
		if r.Measure == "speed" {
			err = errAnySpeed
		}
		return words, true, err
	} else if meta.Read("motion", &legs) != nil || len(legs) == 0 {
		err = meta.Read("motion", &one)
		legs = [][2]float64{one}
	}
	if err == nil && slices.Contains(legs, [2]float64{}) {
		err = errRest
	}
	return legs, false, err
}

// Score judges a clip.
func (r Heading) Score(ctx context.Context, item Item) (Score, error) {
	_, frames, err := r.picked(item)
	if err != nil {
		return Score{}, err
	}
	asked, anySpeed, err := r.Target(item.Prompt, item.Meta)
	if err != nil {
		return Score{}, err
	}
	if len(frames) > 1 && !anySpeed {
		for i := range asked {
			asked[i] = [2]float64{asked[i][0] * float64(frames[1]), asked[i][1] * float64(frames[1])}
		}
	}
	r.Method = cmp.Or(r.Method, "farneback")
	m, err := r.steps(ctx, item)
	if err != nil {
		return Score{}, err
	}
	judge := m.Heading
	switch {
	case anySpeed || r.Measure == "direction":
		judge = m.Direction
	case r.Measure == "speed":
		judge = m.Speed
	}
	h := judge(asked...)
	s := Score{Value: h.Value, Parts: map[string]float64{"agreement": h.Agreement, "x": h.X, "y": h.Y}}
	if len(asked) == 1 && !anySpeed {
		s.Because("asked for", "%.2f, %.2f pixels from frame to frame; the clip moves %.2f, %.2f", asked[0][0], asked[0][1], h.X, h.Y)
	} else {
		s.Because("asked for", "%.2f, one after another; the clip moves %.2f, %.2f", asked, h.X, h.Y)
	}
	return s, nil
}

// HeadingKey is the table of HeadingOptions.
type HeadingKey struct {
	Heading *HeadingOptions `toml:"heading" doc:"of reward heading: the half of the motion that counts"`
}

// HeadingOptions are of reward heading.
type HeadingOptions struct {
	Measure string `toml:"measure" enum:"motion,direction,speed" doc:"both, the direction at any speed, or the speed in any direction"`
}

// SetDefaults asks for both.
func (o *HeadingOptions) SetDefaults() { o.Measure = "motion" }

// headingKeys are all keys of reward heading.
type headingKeys struct {
	MotionKey
	HeadingKey
}

// of is the reward without its flow.
func (k headingKeys) of() Heading { return Heading{Measure: config.Filled(k.Heading).Measure} }

// HeadingKind is reward heading. It asks the steady flow, and looks at all frames, where the file says nothing.
var HeadingKind = Kind{
	Name:    "heading",
	Card:    "Whether a clip moves where its prompt asks, and as fast: the caption of a moving scene, words such as \"to the left\", or meta.motion = [x, y] in pixels a frame, or a list of such for equal parts of the clip, or one half of this, direction or speed; known tricks do not game it.",
	Paper:   "Darkroom, over Farneback's flow (2003)",
	Parts:   []string{"agreement", "x", "y"},
	Judges:  Clips,
	Traits:  Flows,
	Options: headingKeys{},
	Bounds:  Unit,
	Needs: With(func(k headingKeys) Need {
		return func(p Prompt) error { _, _, err := k.of().Target(p.Text, p.Meta); return err }
	}),
	Open: Opens(func(k headingKeys, _ Bench) (Opened, error) {
		h := k.of()
		if k.Motion != nil {
			if err := k.Motion.built(); err != nil {
				return Opened{}, err
			}
			h.MotionOptions = *k.Motion
		}
		return One(h), nil
	}),
}
