package vision

import (
	"math"
	"slices"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct{ w, h, size, shortW, shortH, longW, longH int }{
		{640, 480, 224, 298, 224, 224, 168},
		{97, 1000, 224, 224, 2309, 22, 224},
		{1, 1, 7, 7, 7, 7, 7},
		{1, 1000, 8, 8, 8000, 1, 8}, // no side vanishes
	} {
		if w, h := ShortestEdge(c.w, c.h, c.size); w != c.shortW || h != c.shortH {
			t.Errorf("shortest edge of %d x %d: %d x %d", c.w, c.h, w, h)
		}
		if w, h := LongestEdge(c.w, c.h, c.size); w != c.longW || h != c.longH {
			t.Errorf("longest edge of %d x %d: %d x %d", c.w, c.h, w, h)
		}
	}
	for _, c := range []struct{ n, size, even, down, zero int }{
		{35, 32, 2, 1, 1}, {33, 32, 0, 0, 0}, {229, 224, 2, 2, 2}, {227, 224, 2, 1, 1}, {21, 32, -5, -6, -5}, {20, 32, -6, -6, -6}, {32, 32, 0, 0, 0},
	} {
		for rule, want := range map[Centring]int{HalfToEven: c.even, Downwards: c.down, TowardZero: c.zero} {
			if got := rule.Offset(c.n, c.size); got != want {
				t.Errorf("rule %d, %d in %d: %d, want %d", rule, c.size, c.n, got, want)
			}
		}
	}
}

func TestCropBox(t *testing.T) {
	m := noise(10, 8, 3).RGB()
	out, err := m.CropBox(-2.5, 0.5, 3.5, 2.5) // half to even: -2, 0, 4, 2
	if err != nil || out.Width != 6 || out.Height != 2 {
		t.Fatalf("%v, %v", out, err)
	}
	for y := range 2 {
		for x := range 6 {
			want := [3]uint8{}
			if x >= 2 {
				want = [3]uint8(m.Row(y)[3*(x-2):])
			}
			if got := [3]uint8(out.Row(y)[3*x:]); got != want {
				t.Errorf("(%d, %d): %v, want %v", x, y, got, want)
			}
		}
	}
	for _, b := range [][4]float64{{3, 0, 3, 2}, {4, 0, 3, 2}, {math.NaN(), 0, 1, 1}, {0, 0, math.Inf(1), 1}, {0, 0, 1e6, 1e6}} {
		if _, err := m.CropBox(b[0], b[1], b[2], b[3]); err == nil {
			t.Errorf("%v was cropped", b)
		}
	}
}

// TestPreprocess: every pipeline gives Size x Size numbers, the two layouts hold the same, and padding is black
// before mean and deviation.
func TestPreprocess(t *testing.T) {
	for _, size := range [][2]int{{50, 20}, {20, 50}, {28, 28}, {3, 5}} {
		m := noise(size[0], size[1], 3).RGB()
		for i, p := range []Preprocess{CLIPPillow(28), torchvision(28), OpenCLIP(28), HPSv2(28), CLIPDifferentiable(28), DINO(28)} {
			last, err := p.Apply(nil, m, ChannelsLast)
			if err != nil {
				t.Fatal(err)
			}
			first, err := p.Apply(nil, m, ChannelsFirst)
			if err != nil || len(last) != 3*28*28 || len(first) != len(last) {
				t.Fatalf("pipeline %d: %d and %d numbers, %v", i, len(last), len(first), err)
			}
			for at, v := range last {
				if first[at%3*28*28+at/3] != v {
					t.Fatalf("pipeline %d: the layouts differ at %d", i, at)
				}
			}
		}
	}
	wide, err := HPSv2(28).Apply(nil, NewFilled(40, 10, white), ChannelsLast)
	if err != nil {
		t.Fatal(err)
	}
	black := []float32{-clipMean[0] / clipStd[0], -clipMean[1] / clipStd[1], -clipMean[2] / clipStd[2]}
	if !slices.Equal(wide[:3], black) {
		t.Errorf("padding is %v, want %v", wide[:3], black)
	}
	if got, want := wide[3*28*14], (1-clipMean[0])/clipStd[0]; math.Abs(float64(got-want)) > 1e-5 {
		t.Errorf("white is %v, want %v", got, want)
	}
	if _, err := (Preprocess{Size: -1}).Apply(nil, New(2, 2), ChannelsLast); err == nil {
		t.Error("a tower of -1 pixels")
	}
}

// torchvision is transformers' CLIPImageProcessor with its present default back end.
func torchvision(size int) Preprocess {
	p := CLIPPillow(size)
	p.Arithmetic, p.Centring = Torch8, TowardZero
	return p
}
