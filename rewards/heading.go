package rewards

import (
	"context"
	"errors"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Heading judges whether a clip moves where its prompt asks, and as fast (motion.Heading has the formula). Motion is
// asked for by meta.motion = [x, y] in pixels a frame, rightwards and downwards, by a list of such for equal parts of
// the clip, one after another, or by the caption of a moving scene.
type Heading struct {
	Flow      motion.Flow // nil: Farneback's, which is steady on small frames
	PerSecond float64     // frames that are looked at; 0: all
}

// errRest is why rest is not judged.
var errRest = errors.New("the prompt asks for no motion, which has no heading (reward flicker judges rest)")

// Target is the motion that a prompt asks for, of equal parts of the clip.
func (Heading) Target(prompt string, meta Meta) (legs [][2]float64, err error) {
	var one [2]float64
	if s, other := moving.Parse(prompt); meta["motion"] == nil && other == nil {
		legs = s.Legs()
	} else if meta.Read("motion", &legs) != nil || len(legs) == 0 {
		err = meta.Read("motion", &one)
		legs = [][2]float64{one}
	}
	if err == nil && slices.Contains(legs, [2]float64{}) {
		err = errRest
	}
	return legs, err
}

// Score judges a clip.
func (r Heading) Score(ctx context.Context, item Item) (Score, error) {
	if item.Clip == nil {
		return Score{}, errNoClip
	}
	if err := item.Clip.Check(); err != nil {
		return Score{}, err
	}
	asked, err := r.Target(item.Prompt, item.Meta)
	if err != nil {
		return Score{}, err
	}
	frames := video.Thinned(len(item.Clip.Frames), item.Clip.Rate, r.PerSecond)
	if len(frames) > 1 {
		for i := range asked {
			asked[i] = [2]float64{asked[i][0] * float64(frames[1]), asked[i][1] * float64(frames[1])}
		}
	}
	c, err := item.Clip.Pick(frames)
	if err != nil {
		return Score{}, err
	}
	by := r.Flow
	if by == nil {
		by = flow.Farneback{}
	}
	m, err := motion.Of(ctx, c, by)
	if err != nil {
		return Score{}, err
	}
	h, err := m.Heading(asked...)
	s := Score{Value: h.Value, Parts: map[string]float64{"agreement": h.Agreement, "x": h.X, "y": h.Y}}
	if len(asked) == 1 {
		s.Because("asked for", "%.2f, %.2f pixels from frame to frame; the clip moves %.2f, %.2f", asked[0][0], asked[0][1], h.X, h.Y)
	} else {
		s.Because("asked for", "%.2f, one after another; the clip moves %.2f, %.2f", asked, h.X, h.Y)
	}
	return s, err
}

// HeadingKind is reward heading. It asks the steady flow, and looks at all frames, where the file says nothing.
var HeadingKind = Kind{
	Name:    "heading",
	Card:    "Whether a clip moves where its prompt asks, and as fast: the caption of a moving scene, or meta.motion = [x, y] in pixels a frame, or a list of such for equal parts of the clip; known tricks do not game it.",
	Paper:   "Darkroom, over Farneback's flow (2003)",
	Parts:   []string{"agreement", "x", "y"},
	Judges:  Clips,
	Traits:  Flows,
	Options: MotionKey{},
	Bounds:  Unit,
	Needs:   Always(func(p Prompt) error { _, err := Heading{}.Target(p.Text, p.Meta); return err }),
	Open: Opens(func(k MotionKey, _ Bench) (Opened, error) {
		h := Heading{}
		if k.Motion != nil {
			if err := k.Motion.built(); err != nil {
				return Opened{}, err
			}
			h.PerSecond = k.Motion.PerSecond
			h.Flow = FlowNamed(k.Motion.Method)
		}
		return One(h), nil
	}),
}
