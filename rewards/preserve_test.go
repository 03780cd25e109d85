package rewards

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
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
		p := Preserve{PreserveOptions: PreserveOptions{measure}}
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

// TestPreserveEdges: by a HED with numbers by a rule, a picture is 1 to itself, and so is one that changed inside the
// boxes alone; another is worth less. Folders and missing files are refused.
func TestPreserveEdges(t *testing.T) {
	var all []safetensors.Tensor
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Mod(float64((i+1)*(len(all)+3))*0.618034, 1)-0.4) / 4
		}
		all = append(all, safetensors.FromF32(name, shape, x))
	}
	in := 3
	for i, convs := range []int{2, 2, 3, 3, 3} {
		for k := range convs {
			add(fmt.Sprintf("block%d_conv%d.kernel", i+1, k+1), 3, 3, in, 2)
			add(fmt.Sprintf("block%d_conv%d.bias", i+1, k+1), 2)
			in = 2
		}
		add(fmt.Sprintf("dsn%d.kernel", i+1), 1, 1, in, 1)
		add(fmt.Sprintf("dsn%d.bias", i+1), 1)
	}
	add("fuse.kernel", 1, 1, 5, 1)
	add("fuse.bias", 1)
	path := filepath.Join(t.TempDir(), "hed.safetensors")
	if err := safetensors.Write(path, all, nil); err != nil {
		t.Fatal(err)
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	bench := Bench{Device: func() (*features.Device, error) { return features.On(tensor.NewPool(be), features.F32), nil }}
	keys := preserveKeys{PreserveKey: PreserveKey{&PreserveOptions{Measure: "edges"}}}
	for bad, want := range map[string]string{t.TempDir(): "is not a file of safetensors", "none.safetensors": "is not a file of safetensors"} {
		keys.Path = bad
		if _, err := keys.open(bench); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if n := PreserveKind.Takes(keys); n != 0 {
		t.Errorf("%s takes %d bytes", keys.Path, n)
	}
	keys.Path = path
	if n := PreserveKind.Takes(keys); n < 4*512*512*(3+2) || n > 4*512*512*3*32 {
		t.Errorf("a picture takes %d bytes", n)
	}
	if n := PreserveKind.Takes(preserveKeys{}); n != 0 {
		t.Errorf("without a network a picture takes %d bytes", n)
	}
	opened, err := keys.open(bench)
	if err != nil {
		t.Fatal(err)
	}
	before, other := ruled(32, 32, [3]int{1, 2, 30}), ruled(32, 32, [3]int{7, 5, 90})
	changed := vision.New(32, 32)
	copy(changed.Pix, before.Pix)
	for y := 10; y < 20; y++ {
		copy(changed.Pix[3*(y*32+10):3*(y*32+20)], other.Pix)
	}
	sources, boxes := []*vision.Image{before}, meta(t, `{"changes": [[10, 10, 20, 20]]}`)
	got := opened.Judge.Judge(t.Context(), []Item{{Image: before, Sources: sources}, {Image: other, Sources: sources}, {Image: other},
		{Image: changed, Sources: sources, Meta: boxes}, {Image: changed, Sources: sources}, {Image: other, Sources: sources, Meta: boxes}})
	if got[0].Missing != nil || math.Abs(got[0].Value-1) > 1e-12 || got[1].Missing != nil || got[1].Value > 0.95 || got[2].Missing == nil {
		t.Errorf("%+v", got)
	}
	if got[3].Missing != nil || math.Abs(got[3].Value-1) > 1e-12 || got[4].Missing != nil || got[4].Value > 0.999 || got[5].Missing != nil || got[5].Value > 0.95 {
		t.Errorf("with boxes: %+v", got[3:])
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}
