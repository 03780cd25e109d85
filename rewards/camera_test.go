package rewards

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
)

// view is a camera's: the shift of its middle, its scale and its turn.
type view struct{ x, y, scale, turn float64 }

// filmed is a clip of a plane with waves by a camera, eight frames of 64 x 64.
func filmed(at func(t float64) view) *video.Clip {
	const side = 64
	c := &video.Clip{Width: side, Height: side, Rate: video.Rate{Num: 8, Den: 1}}
	for t := range 8 {
		v := at(float64(t))
		sin, cos := math.Sincos(v.turn)
		var px []uint8
		for i := range side * side {
			x, y := (float64(i%side)-side/2)/v.scale, (float64(i/side)-side/2)/v.scale
			x, y = v.x+cos*x-sin*y, v.y+sin*x+cos*y
			w := 128 + 35*math.Sin(x/5+y/9) + 35*math.Sin(y/4-x/11) + 25*math.Cos(x/3.1+1)
			px = append(px, uint8(w), uint8(255-w), uint8(w/2+60))
		}
		c.Frames = append(c.Frames, px)
	}
	return c
}

// copyOf is a clip whose frames may be written to.
func copyOf(c *video.Clip) *video.Clip {
	out := *c
	out.Frames = nil
	for _, f := range c.Frames {
		out.Frames = append(out.Frames, slices.Clone(f))
	}
	return &out
}

// TestCamera: each move is near 1 where it is asked for and near 0 under every other name; a thing that moves alone
// counts as none; rest, noise and cuts are worth nothing, but rest of a still camera, which is worth 1.
func TestCamera(t *testing.T) {
	clips := map[string]*video.Clip{
		"pan left":              filmed(func(t float64) view { return view{-1.5 * t, 0, 1, 0} }),
		"pan right":             filmed(func(t float64) view { return view{1.5 * t, 0, 1, 0} }),
		"tilt up":               filmed(func(t float64) view { return view{0, -1.5 * t, 1, 0} }),
		"tilt down":             filmed(func(t float64) view { return view{0, 1.5 * t, 1, 0} }),
		"zoom in":               filmed(func(t float64) view { return view{0, 0, math.Pow(1.04, t), 0} }),
		"zoom out":              filmed(func(t float64) view { return view{0, 0, math.Pow(0.96, t), 0} }),
		"roll clockwise":        filmed(func(t float64) view { return view{0, 0, 1, 0.05 * t} }),
		"roll counterclockwise": filmed(func(t float64) view { return view{0, 0, 1, -0.05 * t} }),
		"static camera":         filmed(func(float64) view { return view{0, 0, 1, 0} }),
	}
	score := func(prompt string, c *video.Clip) float64 {
		s, err := (Camera{}).Score(t.Context(), Item{Prompt: prompt, Clip: c})
		if err != nil {
			t.Fatalf("%q: %v", prompt, err)
		}
		return s.Value
	}
	for made, c := range clips {
		for asked := range clips {
			if v := score("a wall of waves, "+asked, c); asked == made && v < 0.75 || asked != made && v > 0.1 {
				t.Errorf("%q of a clip that was made as %q: %.3f", asked, made, v)
			}
		}
	}
	still := clips["static camera"]
	noise, cuts, thing := copyOf(still), copyOf(still), copyOf(still)
	r := rand.New(rand.NewPCG(1, 2))
	for f := range still.Frames {
		cuts.Frames[f] = clips[[]string{"pan left", "tilt up", "zoom in", "roll clockwise"}[f%4]].Frames[(f*5)%8]
		for i := range noise.Frames[f] {
			noise.Frames[f][i] = uint8(r.IntN(256))
		}
		for y := range 14 { // a thing that moves to the right
			for x := range 14 {
				at := 3 * ((25+y)*64 + 8 + 3*f + x)
				thing.Frames[f][at], thing.Frames[f][at+1] = uint8(20*x%256), uint8(18*y%256)
			}
		}
	}
	for asked := range clips {
		for name, c := range map[string]*video.Clip{"noise": noise, "cuts": cuts, "a thing": thing} {
			if v := score(asked, c); v > 0.25 && (asked != "static camera" || name != "a thing") {
				t.Errorf("%q of %s: %.3f", asked, name, v)
			}
		}
	}
	if v := score("static camera", thing); v < 0.9 {
		t.Errorf("a thing moves before a still camera: %.3f", v)
	}
	both := &video.Clip{Width: 64, Height: 64, Rate: still.Rate, Frames: slices.Concat(clips["pan right"].Frames[3:], clips["pan right"].Frames[3:7])}
	slices.Reverse(both.Frames[5:]) // there, and back
	if there, back := score("pan right, then pan left", both), score("pan left, then pan right", both); there < 0.6 || back > 0.1 {
		t.Errorf("there and back: %.3f, and the other way round %.3f", there, back)
	}
}

// TestCameraWords: moves are read from prompts and from meta.camera, in their order.
func TestCameraWords(t *testing.T) {
	for prompt, want := range map[string][]motion.Move{
		"A street. The camera pans to the left": {motion.PanLeft}, "panning slowly right over a valley": {motion.PanRight},
		"zooming in, then tilts down": {motion.ZoomIn, motion.TiltDown}, "dolly out": {motion.ZoomOut}, "the camera pulls back": {motion.ZoomOut},
		"pushes in on a face": {motion.ZoomIn}, "rolling counterclockwise": {motion.Counterclockwise}, "Static camera, a cat": {motion.Still},
	} {
		if got, err := (Camera{}).Target(prompt, nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", prompt, got, err)
		}
	}
	if got, err := (Camera{}).Target("pan left", Meta{"camera": json.RawMessage(`"zoom in"`)}); err != nil || !slices.Equal(got, []motion.Move{motion.ZoomIn}) {
		t.Errorf("meta.camera: %v, %v", got, err)
	}
	for prompt, meta := range map[string]Meta{"a frying pan left on a stove": nil, "a cat": nil, "a pan left on a stove": nil, "zoom in": {"camera": json.RawMessage(`"closer"`)}, "zoom": {"camera": json.RawMessage(`3`)}} {
		if got, err := (Camera{}).Target(prompt, meta); err == nil {
			t.Errorf("%q: %v", prompt, got)
		}
	}
	if _, err := (Camera{}).Score(t.Context(), Item{Prompt: "zoom in"}); !errors.Is(err, errNoClip) {
		t.Errorf("without a clip: %v", err)
	}
}
