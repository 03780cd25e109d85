package vlm

import (
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// TestSizes: both sides are multiples, and the area is within bounds where the shape allows it.
func TestSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	p := Pixels{3136, 100352}
	for range 2000 {
		w, h := 1+r.IntN(3000), 1+r.IntN(3000)
		for _, rule := range []SizeRule{Transformers, QwenUtils} {
			nw, nh, err := rule.Size(w, h, 28, p)
			var thin TooThin
			if errors.As(err, &thin) {
				if max(w, h) <= 200*min(w, h) {
					t.Fatal(err)
				}
				continue
			}
			if err != nil || nw%28 != 0 || nh%28 != 0 || rule == Transformers && nw*nh < p.Min || nw*nh > p.Max+28*max(nw, nh) {
				t.Fatalf("%d x %d by rule %d: %d x %d, %v", w, h, rule, nw, nh, err)
			}
		}
		if nw, nh, err := p.Budget(w, h); err == nil && nw*nh > p.Max && w*h > p.Max {
			t.Fatalf("%d x %d within %v: %d x %d", w, h, p, nw, nh)
		}
	}
}

func TestBadSizes(t *testing.T) {
	for _, c := range []struct {
		w, h, factor int
		p            Pixels
	}{
		{0, 5, 28, Pixels{1, 10}}, {-3, 5, 28, Pixels{1, 10}}, {math.MaxInt, math.MaxInt, 28, Pixels{1, 10}},
		{5, 5, 0, Pixels{1, 10}}, {5, 5, math.MaxInt, Pixels{1, 10}}, {5, 5, 28, Pixels{-1, 10}}, {5, 5, 28, Pixels{1, 0}},
		{5, 5, 28, Pixels{math.MaxInt, math.MaxInt}}, {1, 500, 28, Pixels{1, 1000}},
	} {
		if w, h, err := Transformers.Size(c.w, c.h, c.factor, c.p); err == nil {
			t.Errorf("%v: %d x %d", c, w, h)
		}
	}
	if w, h, err := QwenUtils.Size(5, 5, 28, Pixels{10, 1}); err == nil {
		t.Errorf("bounds the wrong way round: %d x %d", w, h)
	}
	for _, p := range []Pixels{{0, 0}, {1, 1}, {-1, 5}, {math.MaxInt, math.MaxInt}} {
		if w, h, err := p.Budget(1, 900); err == nil {
			t.Errorf("1 x 900 within %v: %d x %d", p, w, h)
		}
	}
}

func noise(r *rand.Rand, w, h, channels int) *vision.Raster {
	m := vision.NewRaster(w, h, channels)
	for i := range m.Pix {
		m.Pix[i] = uint8(r.IntN(256))
	}
	return m
}

// TestPatches puts patches back where Places says that they belong: the picture comes back.
func TestPatches(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 2))
	p := NewProcessor()
	p.Patch, p.Merge, p.Frames, p.Pixels = 4, 3, 2, Pixels{1, 1 << 20}
	pictures := []*vision.Raster{noise(r, 36, 24, 3), noise(r, 12, 48, 4), noise(r, 24, 24, 1)}
	patches, err := p.Apply(pictures...)
	if err != nil {
		t.Fatal(err)
	}
	places, err := Places(patches.Grids, p.Merge)
	if err != nil {
		t.Fatal(err)
	}
	width, n := 3*p.Frames*p.Patch*p.Patch, 0
	if len(patches.Values) != len(places)*width {
		t.Fatalf("%d values of %d patches", len(patches.Values), len(places))
	}
	for i, g := range patches.Grids {
		m, err := p.Resize(pictures[i])
		if err != nil || m.Width != g.Columns*p.Patch || m.Height != g.Rows*p.Patch {
			t.Fatalf("picture %d: grid %v, %v", i, g, err)
		}
		for range g.Patches() {
			at, values := places[n], patches.Values[n*width:]
			for k := range width {
				c, y, x := k/(p.Frames*p.Patch*p.Patch), k/p.Patch%p.Patch, k%p.Patch
				b := m.Pix[3*((at.Row*p.Patch+y)*m.Width+at.Column*p.Patch+x)+c]
				if want := (float64(b)/255 - p.Mean[c]) / p.Std[c]; math.Abs(float64(values[k])-want) > 2e-6 {
					t.Fatalf("picture %d, patch %d, value %d: %v, want %v", i, n, k, values[k], want)
				}
			}
			n++
		}
	}
}

func TestBadProcessors(t *testing.T) {
	for text, want := range map[string]string{
		`{`:  "preprocessor_config.json",
		`[]`: "preprocessor_config.json",
		`{"image_processor_type": "CLIPImageProcessor"}`: "Qwen2VLImageProcessor is known",
		`{"patch_size": 0}`:                                                 "no tower",
		`{"patch_size": 1000000000000}`:                                     "no tower",
		`{"merge_size": -2}`:                                                "no tower",
		`{"temporal_patch_size": 100000}`:                                   "no tower",
		`{"min_pixels": 9, "max_pixels": 8}`:                                "9 to 8 pixels",
		`{"max_pixels": 1e18}`:                                              "preprocessor_config.json",
		`{"size": {"longest_edge": 1000000000000}}`:                         "too large",
		`{"size": {"shortest_edge": 200000000, "longest_edge": 200000000}}`: "too large",
		`{"size": {"shortest_edge": -5}}`:                                   "-5 to",
		`{"image_mean": [1, 2]}`:                                            "3 are needed",
		`{"image_std": [0, 1, 1]}`:                                          "deviation 0",
		`{"image_mean": [1e300, 1, 1]}`:                                     "mean 1e+300",
		`{"rescale_factor": 0}`:                                             "rescaled by 0",
		`{"resample": 2}`:                                                   "bicubic",
		`{"do_resize": false}`:                                              "do_resize",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenProcessor(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := OpenProcessor(t.TempDir()); err == nil {
		t.Error("an empty folder")
	}
}

// FuzzProcessor: settings of any kind, and a small picture through those that are taken.
func FuzzProcessor(f *testing.F) {
	f.Add([]byte(`{"patch_size": 4, "size": {"shortest_edge": 64, "longest_edge": 256}}`), uint8(9), uint8(7))
	f.Add([]byte(`{"min_pixels": 1, "max_pixels": 100, "merge_size": 3, "image_std": [1,1,1]}`), uint8(1), uint8(200))
	f.Fuzz(func(t *testing.T, data []byte, w, h uint8) {
		p, err := readProcessor("fuzzed", data)
		if err != nil || p.check() != nil {
			return
		}
		g, err := p.Grid(int(w), int(h))
		if err != nil || g.Patches()*p.Patch*p.Patch > 1<<16 {
			return
		}
		patches, err := p.Apply(vision.NewRaster(int(w), int(h), 3))
		if err != nil {
			t.Fatal(err)
		}
		if len(patches.Values) != g.Patches()*3*p.Frames*p.Patch*p.Patch {
			t.Errorf("%d values of %v", len(patches.Values), g)
		}
	})
}

// TestProcessorConfig: transformers 5 writes the settings of pictures into processor_config.json; a file of their own
// comes first.
func TestProcessorConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenProcessor(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "preprocessor_config.json") {
		t.Errorf("an empty folder: %v", err)
	}
	write("processor_config.json", `{"processor_class": "Qwen3VLProcessor"}`)
	if _, err := OpenProcessor(dir); err == nil || !strings.Contains(err.Error(), `has no "image_processor"`) {
		t.Errorf("without pictures: %v", err)
	}
	write("processor_config.json", `{"image_processor": {"patch_size": 16, "image_processor_type": "Qwen2VLImageProcessor"}, "video_processor": {}}`)
	if p, err := OpenProcessor(dir); err != nil || p.Patch != 16 {
		t.Errorf("%+v, %v", p, err)
	}
	write("processor_config.json", `{"image_processor": {"patch_size": -1}}`)
	if _, err := OpenProcessor(dir); err == nil || !strings.Contains(err.Error(), "processor_config.json") || !strings.Contains(err.Error(), "no tower") {
		t.Errorf("a wrong size: %v", err)
	}
	write("preprocessor_config.json", `{"patch_size": 14}`)
	if p, err := OpenProcessor(dir); err != nil || p.Patch != 14 {
		t.Errorf("%+v, %v", p, err)
	}
}
