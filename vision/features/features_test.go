package features

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestReadProcessor: settings of preprocessors, and those that are refused.
func TestReadProcessor(t *testing.T) {
	usual := vision.CLIPPillow(32)
	for text, want := range map[string]any{
		`{}`: usual,
		`{"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}, "resample": 3, "image_mean": [0.5, 0.5, 0.5], "image_std": [1, 2, 3]}`: vision.Preprocess{Size: 224, Edge: 256, Filter: vision.Bicubic,
			Arithmetic: vision.Pillow, Centring: vision.Downwards, Mean: [3]float32{0.5, 0.5, 0.5}, Std: [3]float32{1, 2, 3}},
		`{"size": 224, "crop_size": 224}`:                      vision.Preprocess{Size: 224, Edge: 224, Filter: vision.Bicubic, Arithmetic: vision.Pillow, Centring: vision.Downwards, Mean: usual.Mean, Std: usual.Std},
		`{"size": 96, "do_center_crop": false, "resample": 2}`: vision.Preprocess{Size: 96, Fit: vision.Stretch, Filter: vision.Bilinear, Arithmetic: vision.Pillow, Centring: vision.Downwards, Mean: usual.Mean, Std: usual.Std},
		`{"size": {"height": 96, "width": 96}, "do_center_crop": true, "crop_size": 96}`: vision.Preprocess{Size: 96, Fit: vision.Stretch, Filter: vision.Bicubic, Arithmetic: vision.Pillow,
			Centring: vision.Downwards, Mean: usual.Mean, Std: usual.Std},
		`{"size": {"height": 96, "width": 48}}`:                      `"size" gives no square`,
		`{"size": {"longest_edge": 96}}`:                             `"size" gives no square`,
		`{"size": null, "crop_size": null}`:                          usual,
		`{"size": "large"}`:                                          "preprocessor_config.json:1",
		`{"size": 224, "crop_size": 256}`:                            `"crop_size" gives no square`,
		`{"size": 224, "crop_size": {"height": 224, "width": 24}}`:   `"crop_size" gives no square`,
		`{"size": {"shortest_edge": 1000000}, "crop_size": 1000000}`: "at most 2048 x 2048",
		`{"size": {"shortest_edge": 1000000}, "crop_size": 8}`:       "at most 2048 x 2048",
		`{"size": -5}`:                `"size" gives no square`,
		`{"resample": 9}`:             `"resample" is 9`,
		`{"image_mean": [1]}`:         "three numbers",
		`{"image_std": [1, 1, -1]}`:   "above 0",
		`{"do_rescale": false}`:       "do_rescale",
		`[]`:                          "preprocessor_config.json:1",
		`{"size": {"shortest_edge":}`: "not JSON",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadProcessor(dir, usual)
		switch want := want.(type) {
		case vision.Preprocess:
			if err != nil || got != want {
				t.Errorf("%s: %+v, %v; %+v was expected", text, got, err, want)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; %q was expected", text, err, want)
			}
		}
	}
	if got, err := ReadProcessor(t.TempDir(), usual); err != nil || got != usual {
		t.Errorf("no file: %+v, %v", got, err)
	}
}

// twice is a tower whose vectors are the picture's numbers, doubled.
func twice() *Tower {
	const side = 4
	p := vision.CLIPDifferentiable(side)
	p.Mean, p.Std = [3]float32{}, [3]float32{1, 1, 1}
	return &Tower{Device: On(tensor.NewPool(ref.Backend{}), F32), Prepare: p, Soft: p, Batch: 2, Width: 3 * side * side,
		Forward: func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
			return tp.Scale(tp.Reshape(x, x.Dim(0), 3*side*side), 2)
		}}
}

// TestTower: derivatives go to the picture that they were asked of, batch after batch.
func TestTower(t *testing.T) {
	tower, ctx := twice(), context.Background()
	var pictures []vision.Pixels
	for i := range 5 {
		p := vision.Pixels{Width: 4, Height: 4, RGB: make([]float32, 48)}
		for k := range p.RGB {
			p.RGB[k] = float32(i) + float32(k)/64
		}
		pictures = append(pictures, p)
	}
	var asked []int
	grads, err := tower.PullPixels(ctx, pictures, func(from int, v [][]float64) ([][]float64, error) {
		asked = append(asked, from, len(v))
		d := make([][]float64, len(v))
		for i, row := range v {
			if row[47] != 2*float64(pictures[from+i].RGB[47]) {
				t.Errorf("picture %d has the vector %v", from+i, row)
			}
			d[i] = make([]float64, 48)
			d[i][from+i] = float64(1 + from + i)
		}
		return d, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 2, 2, 2, 4, 1}; len(asked) != 6 || asked[2] != want[2] || asked[5] != want[5] {
		t.Errorf("asked for %v", asked)
	}
	for i, g := range grads {
		for k, v := range g {
			want := float32(0)
			if k == i {
				want = 2 * float32(1+i)
			}
			if v != want {
				t.Errorf("picture %d, number %d: %v, want %v", i, k, v, want)
			}
		}
	}
}

// TestTowerErrors: an impossible computation is an error, and the tower works afterwards.
func TestTowerErrors(t *testing.T) {
	tower, ctx := twice(), context.Background()
	good := make([]float32, 48)
	at := func(int, [][]float64) ([][]float64, error) { return [][]float64{{1}}, nil }
	if _, err := tower.Pull(ctx, [][]float32{good}, at); err == nil || !strings.Contains(err.Error(), "1 derivatives at 1 vectors of 48") {
		t.Errorf("a short derivative: %v", err)
	}
	sorry := errors.New("sorry")
	if _, err := tower.Pull(ctx, [][]float32{good}, func(int, [][]float64) ([][]float64, error) { return nil, sorry }); !errors.Is(err, sorry) {
		t.Errorf("an error on the way: %v", err)
	}
	if _, err := tower.Vectors(ctx, [][]float32{good, good[:5]}); err == nil || !strings.Contains(err.Error(), "picture 1: 5 numbers") {
		t.Errorf("a short picture: %v", err)
	}
	if _, err := tower.Images(ctx, []*vision.Image{{Width: 2, Height: 2}}); err == nil {
		t.Error("a picture without pixels has a vector")
	}
	if _, err := tower.Pixels(ctx, []vision.Pixels{{Width: 1 << 30, Height: 1 << 30}}); err == nil {
		t.Error("a picture that no memory holds has a vector")
	}
	damaged := append([]float32(nil), good...)
	damaged[3] = float32(math.Inf(1))
	if _, err := tower.Vectors(ctx, [][]float32{damaged}); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("infinite numbers: %v", err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, err := tower.Vectors(stopped, [][]float32{good}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if v, err := tower.Vectors(ctx, [][]float32{good}); err != nil || len(v) != 1 {
		t.Errorf("afterwards: %v, %v", v, err)
	}
	if v, err := tower.Vectors(ctx, nil); err != nil || len(v) != 0 {
		t.Errorf("nothing: %v, %v", v, err)
	}
}
