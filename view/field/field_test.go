package field

import (
	"image/color"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestWheel: colours that the Middlebury benchmark's program gives, for motions of 0, 1/2, 1
// and 2 of the strongest.
func TestWheel(t *testing.T) {
	f := video.NewField(7, 1)
	f.X = []float32{0, 4, 2, 0, -4, 8, float32(math.NaN())}
	f.Y = []float32{0, 0, 0, 4, 0, 0, 0}
	m, err := Wheel(f, 4)
	if err != nil {
		t.Fatal(err)
	}
	want := []color.RGBA{{255, 255, 255, 255}, {255, 0, 0, 255}, {255, 127, 127, 255}, {255, 229, 0, 255}, {0, 209, 255, 255}, {191, 0, 0, 255}, {0, 0, 0, 255}}
	for i, w := range want {
		c := m.At(i, 0).(color.RGBA)
		for k, d := range []int{int(c.R) - int(w.R), int(c.G) - int(w.G), int(c.B) - int(w.B)} {
			if d < -1 || d > 1 {
				t.Errorf("(%g, %g): %v, want %v (channel %d)", f.X[i], f.Y[i], c, w, k)
				break
			}
		}
	}
}

// TestStrongest: one pixel in a thousand does not decide, and noise stays pale.
func TestStrongest(t *testing.T) {
	f := video.NewField(100, 10)
	for i := range f.X {
		f.X[i] = 5
	}
	f.X[3] = 1e6
	f.Y[4] = float32(math.Inf(1))
	f.X[5] = float32(math.NaN())
	if s := Strongest(f); s < 5 || s > 300 {
		t.Errorf("%g", s)
	}
	if s := Strongest(video.NewField(3, 3)); s != 1 {
		t.Errorf("%g where nothing moves", s)
	}
}

// TestArrows: an arrow lies where its motion leads, and nothing else changes.
func TestArrows(t *testing.T) {
	f := video.NewField(40, 30)
	f.X[15*40+15] = 10
	frame := vision.NewFilled(40, 30, color.RGBA{100, 100, 100, 255})
	m, err := Arrows(frame, f, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 * 30 {
		x, y := i%40, i/40
		drawn := m.At(x, y) != color.Color(color.RGBA{177, 177, 177, 255})
		if on := y == 15 && x >= 15 && x <= 25; on && !drawn || drawn && (x < 15 || x > 25 || y < 13 || y > 17) {
			t.Errorf("(%d, %d) drawn: %v", x, y, drawn)
		}
	}
	large, err := Arrows(frame.Enlarge(3), f, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if plain := (color.RGBA{177, 177, 177, 255}); large.At(70, 46) == color.Color(plain) || large.At(80, 46) != color.Color(plain) {
		t.Error("the arrow of a frame three times as large does not end at 3 (15 + 10) + 1")
	}
	wild := video.NewField(40, 30)
	for i := range wild.X {
		wild.X[i], wild.Y[i] = []float32{1e30, float32(math.NaN()), float32(math.Inf(-1)), -4}[i%4], 1e9
	}
	if _, err := Arrows(frame, wild, 3, 2); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]func() error{
		"size": func() error { _, err := Arrows(frame, video.NewField(4, 4), 3, 1); return err },
		"step": func() error { _, err := Arrows(frame, f, 0, 1); return err },
		"none": func() error { _, err := Wheel(&video.Field{Width: 3, Height: 3}, 0); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if l := Legend(64); l.At(60, 32) == l.At(3, 32) || l.At(0, 0) != (color.RGBA{255, 255, 255, 255}) {
		t.Error("the legend has one colour")
	}
}
