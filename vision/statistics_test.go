package vision

import (
	"image/color"
	"math"
	"testing"
)

func TestStatisticsOfKnownPictures(t *testing.T) {
	checks := New(8, 6)
	for y := range 6 {
		for x := range 8 {
			if (x+y)%2 == 0 {
				checks.Set(x, y, white)
			}
		}
	}
	for name, c := range map[string]struct {
		m    *Image
		want Statistics
	}{
		"gray":   {NewFilled(5, 4, color.RGBA{90, 90, 90, 255}), Statistics{Brightness: 90}},
		"one":    {NewFilled(1, 1, color.RGBA{90, 90, 90, 255}), Statistics{Brightness: 90}},
		"red":    {NewFilled(5, 4, color.RGBA{200, 0, 0, 255}), Statistics{Brightness: 60, Saturation: 1, Colourfulness: 0.3 * math.Hypot(200, 100), Clipped: 2. / 3}},
		"checks": {checks, Statistics{Brightness: 127.5, Contrast: 127.5, Sharpness: 1020 * 1020, Entropy: 1, Clipped: 1}},
	} {
		got := c.m.Statistics()
		for i, pair := range [][2]float64{
			{got.Brightness, c.want.Brightness}, {got.Contrast, c.want.Contrast}, {got.Sharpness, c.want.Sharpness}, {got.Saturation, c.want.Saturation},
			{got.Colourfulness, c.want.Colourfulness}, {got.Entropy, c.want.Entropy}, {got.Clipped, c.want.Clipped},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%s: number %d is %v, want %v", name, i, pair[0], pair[1])
			}
		}
	}
}

// TestBlurIsLessSharp: a monitor of sharpness must notice it.
func TestBlurIsLessSharp(t *testing.T) {
	m := noise(40, 40, 3).RGB()
	small, err := m.Resize(20, 20, Bicubic)
	if err != nil {
		t.Fatal(err)
	}
	blurred, err := small.Resize(40, 40, Bicubic)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := m.Statistics().Sharpness, blurred.Statistics().Sharpness; b > a/4 {
		t.Errorf("sharpness fell from %v to %v only", a, b)
	}
}
