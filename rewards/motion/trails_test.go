package motion

import (
	"testing"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/video/flow"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// TestTrails: the points of a thing that moves to the left and then up have trails of its way, the ground has none, and
// noise has none that lead home.
func TestTrails(t *testing.T) {
	s := moving.Scene{Color: "blue", Shape: "square", Heading: "left", Then: "up", Pace: "fast", Background: "white"}
	c := moving.Large.Begin(s, moving.Place{Half: 8})
	m, err := Of(t.Context(), c, flow.DIS{})
	if err != nil {
		t.Fatal(err)
	}
	legs, followed := s.Legs(), 0
	frames := float64(len(c.Frames)-1) / 2
	for _, trail := range m.Trails(1) {
		from, to := trail.Points[0], trail.Points[len(trail.Points)-1]
		if dx, dy := from[0]-32, from[1]-32; dx*dx > 18*18 || dy*dy > 18*18 {
			t.Errorf("a trail begins at %v", from)
		}
		wantX, wantY := frames*(legs[0][0]+legs[1][0]), frames*(legs[0][1]+legs[1][1])
		if dx, dy := to[0]-from[0]-wantX, to[1]-from[1]-wantY; !trail.Lost && dx*dx+dy*dy < 4 && len(trail.Points) == len(c.Frames) {
			followed++
		}
	}
	if followed < 4 {
		t.Errorf("%d of %d trails follow the thing", followed, len(m.Trails(1)))
	}
	still := moving.Large.Begin(s, moving.Place{Half: 8})
	for i := range still.Frames {
		still.Frames[i] = still.Frames[0]
	}
	if m, err = Of(t.Context(), still, flow.DIS{}); err != nil || len(m.Trails(1)) > 0 {
		t.Errorf("a still clip has %d trails, %v", len(m.Trails(1)), err)
	}
}

// TestSmallTrails: the points of a thing in frames of fewer than 32 pixels have trails, too.
func TestSmallTrails(t *testing.T) {
	s := moving.Scene{Color: "blue", Shape: "square", Heading: "left", Pace: "fast", Background: "white"}
	c := moving.Large.Begin(s, moving.Place{Half: 8})
	small := &video.Clip{Width: 24, Height: 24, Rate: c.Rate}
	for _, px := range c.Frames {
		m, err := (&vision.Image{Width: c.Width, Height: c.Height, Pix: px}).Resize(24, 24, vision.Lanczos)
		if err != nil {
			t.Fatal(err)
		}
		small.Frames = append(small.Frames, m.Pix)
	}
	m, err := Of(t.Context(), small, flow.DIS{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Trails(1)); n < 4 || n > 24*24/2 {
		t.Errorf("%d trails of a thing on an even ground", n)
	}
}
