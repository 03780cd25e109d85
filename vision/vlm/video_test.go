package vlm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// The times are those that transformers 5.23 gives.
func TestTimestamps(t *testing.T) {
	for _, c := range []struct {
		frames []int
		rate   float64
		join   int
		want   []float64
	}{
		{[]int{0, 12, 24, 36}, 24, 2, []float64{0.25, 1.25}},
		{[]int{0, 15, 30}, 30, 2, []float64{0.25, 1}},
		{[]int{7}, 2, 2, []float64{3.5}},
		{[]int{0, 1, 2}, 1, 1, []float64{0, 1, 2}},
	} {
		got, err := Timestamps(c.frames, c.rate, c.join)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v at %v: %v, %v", c.frames, c.rate, got, err)
		}
	}
	for _, f := range []func() ([]float64, error){
		func() ([]float64, error) { return Timestamps(nil, 1, 2) },
		func() ([]float64, error) { return Timestamps([]int{1}, 0, 2) },
		func() ([]float64, error) { return Timestamps([]int{1}, 1, 0) },
	} {
		if _, err := f(); err == nil {
			t.Error("a clip that is none has times")
		}
	}
	text, err := FramesApart("a"+clip+"b", [][]float64{{0.25, 1.25}})
	if want := "a<0.2 seconds>" + clip + "<1.2 seconds>" + clip + "b"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := FramesApart(clip, nil); err == nil {
		t.Error("a clip without times was written")
	}
	if _, err := FramesApart("a", [][]float64{{1}}); err == nil {
		t.Error("times without a clip were written")
	}
	if g := FrameGrids(Grid{3, 4, 6}); len(g) != 3 || g[2] != (Grid{1, 4, 6}) {
		t.Errorf("%v", g)
	}
}

// The three rules read different frames of the same clip; frames outside of a clip are refused.
func TestFrames(t *testing.T) {
	for rule, want := range map[FrameRule][]int{Qwen2Frames: {0, 7, 15, 22}, Qwen3Frames: {0, 10, 19, 29}, VendorFrames: {0, 10, 19, 29}} {
		f := Frames{Rule: rule, FPS: 2, Min: 4, Max: 768}
		got, err := f.Of(30, 30)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v (%v), want %v", rule, got, err, want)
		}
		c := &video.Clip{Width: 1, Height: 1, Rate: video.Rate{Num: 30, Den: 1}, Frames: make([][]uint8, 30)}
		if _, rate, err := f.Read(c); err != nil || rate != 4 {
			t.Errorf("%s: four of 30 frames at %v a second (%v)", rule, rate, err)
		}
		for _, bad := range []Frames{{Rule: rule}, {Rule: rule, FPS: -1}} {
			if _, err := bad.Of(30, 30); err == nil {
				t.Errorf("%+v is possible", bad)
			}
		}
		if _, err := f.Of(0, 30); err == nil {
			t.Errorf("%s: no frames are possible", rule)
		}
	}
	_, err := Frames{Rule: Qwen2Frames, Count: 14}.Of(17, 8)
	var past PastEnd
	if !errors.As(err, &past) || past.Places[len(past.Places)-1] != 17 {
		t.Errorf("%v is not a place past the end", err)
	}
}

// A clip of one frame twice has the patches of a picture, and an odd clip's last frame is repeated.
func TestClipPatches(t *testing.T) {
	p := NewProcessor()
	p.Pixels = Pixels{28 * 28, 1 << 20}
	of := ClipPixels{Rule: Qwen2Frames, Pixels: p.Pixels}
	r, other := vision.NewRaster(56, 84, 3), vision.NewRaster(56, 84, 3)
	for i := range r.Pix {
		r.Pix[i], other.Pix[i] = uint8(i*7), uint8(i*5)
	}
	still, err := p.Apply(r)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := p.Clip(of, r, r)
	if err != nil || !slices.Equal(still.Values, twice.Values) || twice.Grids[0] != still.Grids[0] {
		t.Errorf("a frame twice is no picture: %v %v (%v)", twice.Grids, still.Grids, err)
	}
	odd, err := p.Clip(of, r, r, other)
	if err != nil || odd.Grids[0].Frames != 2 {
		t.Fatalf("%v (%v)", odd.Grids, err)
	}
	last, err := p.Apply(other)
	if err != nil || !slices.Equal(odd.Values, slices.Concat(still.Values, last.Values)) {
		t.Errorf("three frames are not the first twice and the last twice (%v)", err)
	}
	if _, err := p.Clip(of); err == nil {
		t.Error("a clip without frames is possible")
	}
	if _, err := p.Clip(of, r, vision.NewRaster(28, 28, 3)); err == nil || !strings.Contains(err.Error(), "frame 1 has 28 x 28") {
		t.Errorf("frames of two sizes: %v", err)
	}
}

// Sizes are multiples of the factor within the bounds, for any numbers; absurd ones are refused.
func TestClipSizes(t *testing.T) {
	for _, rule := range []FrameRule{Qwen2Frames, Qwen3Frames} {
		for _, side := range [][2]int{{240, 320}, {1, 9000}, {27, 27}, {4000, 2}} {
			p := ClipPixels{Rule: rule, Pixels: Pixels{4096, 1 << 18}}
			w, h, err := p.Size(8, side[0], side[1], 28)
			if err != nil || w%28 != 0 || h%28 != 0 || w < 28 || h < 28 {
				t.Errorf("%s: %v becomes %d x %d (%v)", rule, side, w, h, err)
			}
		}
		for _, bad := range [][4]int{{0, 10, 10, 28}, {8, 0, 10, 28}, {8, 10, 10, 0}, {1 << 30, 10, 10, 28}} {
			if _, _, err := (ClipPixels{Rule: rule, Pixels: Pixels{1, 100}}).Size(bad[0], bad[1], bad[2], bad[3]); err == nil {
				t.Errorf("%s: %v is possible", rule, bad)
			}
		}
	}
	if _, _, _, err := VendorSize(0, 10, 10, 28, 4, 128, 1000); err == nil {
		t.Error("no frames are possible")
	}
}
