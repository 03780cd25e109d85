package flow

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
)

// An estimator is either method.
type estimator interface {
	Flow(first, second Gray) (*video.Field, error)
}

// far is the mean and the largest distance of a flow from one motion, some pixels from the edges.
func far(f *video.Field, dx, dy float64, margin int) (mean, most float64) {
	n := 0
	for i := range f.X {
		if x, y := i%f.Width, i/f.Width; min(x, y, f.Width-1-x, f.Height-1-y) < margin {
			continue
		}
		d := math.Hypot(float64(f.X[i])-dx, float64(f.Y[i])-dy)
		mean, most, n = mean+d, max(most, d), n+1
	}
	return mean / float64(n), most
}

// TestTranslation: a picture that moves as a whole, by whole and by broken pixels. Each method
// is as near as OpenCV 4.11 is on these frames, whose mean and largest distances are listed here.
func TestTranslation(t *testing.T) {
	moves := [][2]float64{{3, -2}, {0.4, 0.7}, {-5.5, 4.25}}
	for name, k := range map[string]struct {
		e    estimator
		mean [3]float64
		most [3]float64
	}{
		"Farneback":           {Farneback{}, [3]float64{0.0002, 0.0100, 0.0204}, [3]float64{0.0016, 0.0339, 5.9155}},
		"Farneback, Gaussian": {Farneback{Gaussian: true, PolyN: 7, PolySigma: 1.5}, [3]float64{0.0006, 0.0230, 0.0234}, [3]float64{0.0063, 0.1693, 2.5568}},
		"DIS medium":          {DIS{}, [3]float64{0.0132, 0.0421, 0.0521}, [3]float64{0.0480, 0.0698, 0.1229}},
		"DIS fast":            {DIS{Preset: Fast}, [3]float64{0.0909, 0.0958, 0.0877}, [3]float64{0.1714, 0.1972, 0.2891}},
		"DIS ultrafast":       {DIS{Preset: UltraFast}, [3]float64{0.0984, 0.0620, 0.0697}, [3]float64{0.3692, 0.1566, 0.3120}},
		"DIS, patches of 12":  {DIS{PatchSize: 12, PatchStride: 4}, [3]float64{0.0136, 0.0478, 0.0600}, [3]float64{0.0554, 0.0793, 0.1514}},
		"DIS, no means":       {DIS{WithoutMean: true}, [3]float64{0.0141, 0.0415, 0.0529}, [3]float64{0.0606, 0.0690, 0.1227}},
		"DIS, no propagation": {DIS{WithoutPropagation: true}, [3]float64{0.0166, 0.0443, 0.0468}, [3]float64{0.0544, 0.0713, 0.1135}},
	} {
		for i, d := range moves {
			f, err := k.e.Flow(waves(160, 120, 0, 0), waves(160, 120, d[0], d[1]))
			if err != nil {
				t.Fatal(err)
			}
			if mean, most := far(f, d[0], d[1], 16); math.Abs(mean-k.mean[i]) > 2e-4 || math.Abs(most-k.most[i]) > 2e-3 {
				t.Errorf("%s, %v: %.4f off in the mean, %.4f at most; OpenCV %.4f and %.4f", name, d, mean, most, k.mean[i], k.most[i])
			}
		}
	}
}

// TestStill: equal frames do not move: nowhere for DIS, nowhere but near the edges, where only
// the first frame counts, for Farneback.
func TestStill(t *testing.T) {
	g := waves(128, 96, 0, 0)
	f, err := Farneback{Levels: -1}.Flow(g, g)
	if err != nil {
		t.Fatal(err)
	}
	if _, most := far(f, 0, 0, 1+3*7); most != 0 {
		t.Errorf("Farneback: a still picture moves by %g", most)
	}
	if f, err = (DIS{}).Flow(g, g); err != nil {
		t.Fatal(err)
	}
	if _, most := far(f, 0, 0, 0); most > 1e-3 {
		t.Errorf("DIS: a still picture moves by %g", most)
	}
}

// TestStart: a flow to start from is used, and the wrong one is mended.
func TestStart(t *testing.T) {
	first, second := waves(160, 120, 0, 0), waves(160, 120, 14, 9)
	start := video.NewField(160, 120)
	for i := range start.X {
		start.X[i], start.Y[i] = 13, 10
	}
	for name, e := range map[string][2]estimator{
		"Farneback": {Farneback{Levels: -1}, Farneback{Levels: -1, Start: start}},
		"DIS":       {DIS{}, DIS{Start: start}},
	} {
		var mean [2]float64
		for i, e := range e {
			f, err := e.Flow(first, second)
			if err != nil {
				t.Fatal(err)
			}
			mean[i], _ = far(f, 14, 9, 24)
		}
		if mean[1] > 0.1 || mean[1] > 1.1*mean[0] {
			t.Errorf("%s: %g off from a good start, %g without", name, mean[1], mean[0])
		}
	}
}

// TestThreads: the number of threads changes nothing.
func TestThreads(t *testing.T) {
	first, second := waves(131, 97, 0, 0), waves(131, 97, 2.5, 1)
	for name, with := range map[string]func(threads int) estimator{
		"Farneback": func(n int) estimator { return Farneback{Threads: n} },
		"DIS":       func(n int) estimator { return DIS{Threads: n} },
	} {
		want, err := with(1).Flow(first, second)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{2, 3, 8, 1000} {
			got, err := with(n).Flow(first, second)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.X, want.X) || !slices.Equal(got.Y, want.Y) {
				t.Errorf("%s: %d threads give another flow", name, n)
			}
		}
	}
}

// TestSmall: frames of any size have a flow of numbers, or a sentence that says why not.
func TestSmall(t *testing.T) {
	wild := video.NewField(1, 1)
	for _, size := range [][2]int{{1, 1}, {1, 40}, {40, 1}, {2, 3}, {7, 200}, {8, 40}, {40, 8}, {12, 12}, {17, 33}, {200, 9}} {
		first, second := waves(size[0], size[1], 0, 0), waves(size[0], size[1], 1, 1)
		start := video.NewField(size[0], size[1])
		for i := range start.X {
			start.X[i], start.Y[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), -1e30, 3e9}[i%4], float32(math.Inf(-1))
		}
		for name, e := range map[string]estimator{
			"Farneback": Farneback{}, "Farneback, wide": Farneback{Window: 101, PolyN: 20}, "DIS": DIS{}, "DIS fast": DIS{Preset: Fast},
			"DIS, large": DIS{PatchSize: 16, FinestScale: 5},
		} {
			f, err := e.Flow(first, second)
			if err != nil {
				if !strings.Contains(err.Error(), "too small") {
					t.Errorf("%s of %v: %v", name, size, err)
				}
				continue
			}
			for i := range f.X {
				if v := f.X[i] + f.Y[i]; v != v || math.Abs(float64(v)) > 1e4 {
					t.Errorf("%s of %v: %g, %g", name, size, f.X[i], f.Y[i])
					break
				}
			}
		}
		for _, e := range []estimator{Farneback{Start: start}, DIS{Start: start}} { // no panic
			_, _ = e.Flow(first, second)
		}
		if _, err := (Farneback{Start: wild}).Flow(first, second); err == nil && size != [2]int{1, 1} {
			t.Error("a flow of another size was started from")
		}
	}
}

func TestRefused(t *testing.T) {
	g := waves(32, 32, 0, 0)
	for name, k := range map[string]struct {
		e    estimator
		a, b Gray
	}{
		"sizes":       {Farneback{}, g, waves(32, 31, 0, 0)},
		"bytes":       {DIS{}, g, Gray{32, 32, make([]uint8, 5)}},
		"nothing":     {Farneback{}, Gray{}, Gray{}},
		"negative":    {DIS{}, Gray{Width: -1, Height: -1, Pix: []uint8{1}}, g},
		"vast":        {DIS{}, Gray{Width: 1 << 40, Height: 1 << 40}, g},
		"scale":       {Farneback{PyramidScale: 1}, g, g},
		"no number":   {Farneback{PyramidScale: math.NaN()}, g, g},
		"window":      {Farneback{Window: -3}, g, g},
		"poly n":      {Farneback{PolyN: 1000}, g, g},
		"iterations":  {Farneback{Iterations: -1}, g, g},
		"sigma":       {Farneback{PolySigma: -1}, g, g},
		"patch":       {DIS{PatchSize: 17}, g, g},
		"stride":      {DIS{PatchStride: 9}, g, g},
		"no stride":   {DIS{PatchStride: -1}, g, g},
		"steps":       {DIS{Descent: -1}, g, g},
		"preset":      {DIS{Preset: 7}, g, g},
		"scale of 60": {DIS{FinestScale: 60}, g, g},
	} {
		if f, err := k.e.Flow(k.a, k.b); err == nil {
			t.Errorf("%s: a flow of %d x %d", name, f.Width, f.Height)
		}
	}
	c := &video.Clip{Width: 32, Height: 32, Frames: [][]uint8{make([]uint8, 3*32*32), make([]uint8, 3*32*32)}}
	if _, err := (DIS{}).Between(c, 0, 2); err == nil {
		t.Error("a frame that is not there was read")
	}
	if _, err := (Farneback{}).Between(c, 1, 0); err != nil {
		t.Error(err)
	}
}
