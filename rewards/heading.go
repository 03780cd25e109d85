package rewards

import (
	"context"
	"errors"

	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// Heading judges whether a clip moves where its prompt asks, and as fast (motion.Heading has the formula). Motion is
// asked for by meta.motion = [x, y] in pixels a frame, rightwards and downwards, or by the caption of a moving scene.
type Heading struct {
	Flow      motion.Flow // nil: Farneback's, which is steady on small frames
	PerSecond float64     // frames that are looked at; 0: all
}

// errRest is why rest is not judged.
var errRest = errors.New("the prompt asks for no motion, which has no heading (reward flicker judges rest)")

// Target is the motion that a prompt asks for.
func (Heading) Target(prompt string, meta Meta) (v [2]float64, err error) {
	if _, there := meta["motion"]; there {
		err = meta.Read("motion", &v)
	} else if s, other := moving.Parse(prompt); other == nil {
		v = s.Velocity()
	} else {
		err = meta.Read("motion", &v)
	}
	if err == nil && v == [2]float64{} {
		err = errRest
	}
	return v, err
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
		asked[0], asked[1] = asked[0]*float64(frames[1]), asked[1]*float64(frames[1])
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
	h, err := m.Heading(asked)
	s := Score{Value: h.Value, Parts: map[string]float64{"agreement": h.Agreement, "x": h.X, "y": h.Y}}
	s.Because("asked for", "%.2f, %.2f pixels from frame to frame; the clip moves %.2f, %.2f", asked[0], asked[1], h.X, h.Y)
	return s, err
}

// HeadingKind is reward heading. It asks the steady flow, and looks at all frames, where the file says nothing.
var HeadingKind = Kind{
	Name:    "heading",
	Card:    "Whether a clip moves where its prompt asks, and as fast: the caption of a moving scene, or meta.motion = [x, y] in pixels a frame; known tricks do not game it.",
	Paper:   "Darkroom, over Farneback's flow (2003)",
	Parts:   []string{"agreement", "x", "y"},
	Judges:  Clips,
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
