package rewards

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// ruled is a picture that testdata/ssim.py makes, too.
func ruled(w, h int, a [3]int) *vision.Image {
	m := vision.New(w, h)
	for y := range h {
		for x := range w {
			for c := range 3 {
				m.Pix[3*(y*w+x)+c] = uint8((x*x*a[0] + y*a[1] + c*a[2] + x*y) % 256)
			}
		}
	}
	return m
}

// TestSSIM holds structural similarity to scikit-image.
func TestSSIM(t *testing.T) {
	text, err := os.ReadFile("testdata/ssim.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Width, Height int
		First, Second [3]int
		Mean          float64
		At            [][3]float64
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 4 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for i, c := range cases {
		mean, pixels, err := SSIM(ruled(c.Width, c.Height, c.First), ruled(c.Width, c.Height, c.Second))
		if err != nil || math.Abs(mean-c.Mean) > 1e-12 {
			t.Errorf("case %d: %v, want %v (%v)", i, mean, c.Mean, err)
		}
		for _, at := range c.At {
			if got := pixels[int(at[1])*c.Width+int(at[0])]; math.Abs(got-at[2]) > 1e-11 {
				t.Errorf("case %d at %v: %v, want %v", i, at[:2], got, at[2])
			}
		}
	}
	for _, odd := range []*vision.Image{vision.New(10, 40), vision.New(24, 18)} {
		if _, _, err := SSIM(vision.New(24, 17), odd); err == nil {
			t.Errorf("%d x %d was compared", odd.Width, odd.Height)
		}
	}
}

// TestPreserve: the same picture is worth 1 by either measure, and so is one that changed inside the boxes alone, far
// enough from their edges for a window; another is worth less; without a source there is no score.
func TestPreserve(t *testing.T) {
	before := ruled(64, 64, [3]int{1, 2, 30})
	inside := vision.New(64, 64)
	copy(inside.Pix, before.Pix)
	for y := 16; y < 32; y++ {
		for x := 16; x < 32; x++ {
			inside.Pix[3*(y*64+x)] ^= 0x80
		}
	}
	boxes := meta(t, `{"changes": [[10, 10, 38, 38]]}`)
	for _, measure := range []string{"ssim", "difference"} {
		p := Preserve{PreserveOptions{measure}}
		score := func(m *vision.Image, meta Meta) float64 {
			t.Helper()
			s, err := p.Score(t.Context(), Item{Image: m, Meta: meta, Sources: []*vision.Image{before}})
			if err != nil {
				t.Fatal(err)
			}
			return s.Value
		}
		if v := score(before, nil); math.Abs(v-1) > 1e-12 {
			t.Errorf("%s: a picture is %v to itself", measure, v)
		}
		if v := score(inside, boxes); math.Abs(v-1) > 1e-12 {
			t.Errorf("%s: a change inside the boxes is worth %v", measure, v)
		}
		some, other := score(inside, nil), score(ruled(64, 64, [3]int{7, 5, 90}), boxes)
		if !(some < 1 && other < some) {
			t.Errorf("%s: a change is worth %v, another picture %v", measure, some, other)
		}
		if _, err := p.Score(t.Context(), Item{Image: before}); !errors.Is(err, ErrNoSource) {
			t.Errorf("without a source: %v", err)
		}
		if _, err := p.Score(t.Context(), Item{Image: before, Sources: []*vision.Image{before}, Meta: meta(t, `{"changes": [[0, 0, 64, 64]]}`)}); err == nil {
			t.Error("nothing was compared, and there is a score")
		}
		if v := func() float64 {
			large, err := before.Resize(128, 128, vision.Lanczos)
			if err != nil {
				t.Fatal(err)
			}
			s, err := p.Score(t.Context(), Item{Image: before, Sources: []*vision.Image{large}, Meta: boxes})
			if err != nil {
				t.Fatal(err)
			}
			return s.Value
		}(); v < 0.5 {
			t.Errorf("%s: the picture in another size is %v", measure, v)
		}
	}
}
