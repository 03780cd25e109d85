package scorers

import (
	"context"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

func opened(t *testing.T, file string, o ONNXOptions) (*ONNX, error) {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	return Open("testdata/"+file, o, onnx.Options{Backend: be})
}

// colours is a picture whose left half has one colour, and its right half another.
func colours(width, height int, left, right color.RGBA) *vision.Image {
	m := vision.NewFilled(width, height, right)
	half := vision.NewFilled(width/2, height, left)
	m.Paste(half, 0, 0)
	return m
}

// TestInput: means of the input's channels are those of the picture after size, order, factor, mean and std.
func TestInput(t *testing.T) {
	m := colours(40, 20, color.RGBA{255, 0, 51, 255}, color.RGBA{255, 102, 51, 255})
	for name, c := range map[string]struct {
		o    ONNXOptions
		want [3]float64
	}{
		"stretch":       {ONNXOptions{Size: []int{20, 20}}, [3]float64{1, 0.2, 0.2}},
		"bgr":           {ONNXOptions{Size: []int{20, 20}, Order: "bgr"}, [3]float64{0.2, 0.2, 1}},
		"factor":        {ONNXOptions{Size: []int{20, 20}, Factor: 1}, [3]float64{255, 51, 51}},
		"mean and std":  {ONNXOptions{Size: []int{20, 20}, Mean: []float64{0.5, 0.1, 0}, Std: []float64{0.5, 0.1, 2}}, [3]float64{1, 1, 0.1}},
		"crop":          {ONNXOptions{Size: []int{10, 20}, Fit: "crop", Filter: "nearest"}, [3]float64{1, 0.2, 0.2}},
		"pad":           {ONNXOptions{Size: []int{40, 40}, Fit: "pad", Filter: "nearest"}, [3]float64{0.5, 0.1, 0.1}},
		"letterbox":     {ONNXOptions{Size: []int{20, 20}, Fit: "letterbox", Factor: 1}, [3]float64{127.5 + 57, 25.5 + 57, 25.5 + 57}},
		"preset":        {ONNXOptions{Preset: "open_nsfw", Index: -1, Size: []int{20, 20}, Resize: []int{20, 20}}, [3]float64{51 - 104, 51 - 117, 255 - 123}},
		"preset, ours":  {ONNXOptions{Preset: "open_nsfw", Size: []int{20, 20}, Resize: []int{20, 20}, Order: "rgb"}, [3]float64{255 - 104, 51 - 117, 51 - 123}},
		"opencv's size": {ONNXOptions{Size: []int{40, 20}, Filter: "opencv"}, [3]float64{1, 0.2, 0.2}},
	} {
		for i, want := range c.want {
			c.o.Index = i
			o, err := opened(t, "means.onnx", c.o)
			if err != nil {
				t.Fatal(name, err)
			}
			s, err := o.Score(context.Background(), rewards.Item{Image: m})
			if err != nil || math.Abs(s.Value-want) > 0.02*math.Max(1, math.Abs(want)) {
				t.Errorf("%s: channel %d is %v, %v; want %v", name, i, s.Value, err, want)
			}
		}
	}
}

// TestReduce: a number of several, and the cosine with a source.
func TestReduce(t *testing.T) {
	m := vision.NewFilled(8, 8, color.RGBA{255, 51, 0, 255})
	source := vision.NewFilled(8, 8, color.RGBA{51, 255, 0, 255})
	size := []int{8, 8}
	for reduce, want := range map[string]float64{"mean": 0.4, "sum": 1.2, "max": 1, "min": 0, "cosine": 0.4 / 1.04} {
		o, err := opened(t, "means.onnx", ONNXOptions{Size: size, Reduce: reduce, Index: -1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := o.Score(context.Background(), rewards.Item{Image: m, Sources: []*vision.Image{source}})
		if err != nil || math.Abs(s.Value-want) > 1e-6 {
			t.Errorf("%s: %v, %v; want %v", reduce, s.Value, err, want)
		}
		if _, err := o.Score(context.Background(), rewards.Item{Image: m}); reduce == "cosine" && err == nil {
			t.Error("a cosine without a source")
		}
	}
	o, err := opened(t, "means.onnx", ONNXOptions{Size: size, Index: 0, Activation: "softmax"})
	if err != nil {
		t.Fatal(err)
	}
	want := 1 / (1 + math.Exp(0.2-1) + math.Exp(-1))
	if s, err := o.Score(context.Background(), rewards.Item{Image: m}); err != nil || math.Abs(s.Value-want) > 1e-6 {
		t.Errorf("softmax: %v, %v; want %v", s.Value, err, want)
	}
}

// TestBoxes: boxes of a YOLO lie where they are in the picture, by name, the surest of those that overlap.
func TestBoxes(t *testing.T) {
	m := vision.NewFilled(160, 80, color.RGBA{255, 200, 0, 255})
	for reduce, want := range map[string]float64{"best": 0.5, "count": 2, "area": 2 * 40 * 40 / (160.0 * 80)} {
		o, err := opened(t, "yolo.onnx", ONNXOptions{Preset: "yolo", Fit: "pad", Filter: "nearest", Index: -1, Reduce: reduce, Least: 0.3})
		if err != nil {
			t.Fatal(err)
		}
		s, err := o.Score(context.Background(), rewards.Item{Image: m})
		if err != nil || math.Abs(s.Value-want) > 0.02 {
			t.Errorf("%s: %v, %v; want %v", reduce, s.Value, err, want)
		}
	}
	o, err := opened(t, "yolo.onnx", ONNXOptions{Boxes: "yolo", Index: -1, Least: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	found, err := o.Detect(context.Background(), m, nil)
	if err != nil || len(found) == 0 || found[0].Class != "red" {
		t.Fatalf("%v, %v", found, err)
	}
	if b := found[0].Box; b != [4]float64{20, 20, 60, 40} {
		t.Errorf("a box at %v", b)
	}
	if found, err := o.Detect(context.Background(), m, []string{"cat"}); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestRefused: networks of other inputs, outputs of several numbers and missing outputs are refused when they are
// opened.
func TestRefused(t *testing.T) {
	for want, c := range map[string]struct {
		file string
		o    ONNXOptions
	}{
		"no size is written":                {"means.onnx", ONNXOptions{Index: 0}},
		"onnx.index picks one":              {"means.onnx", ONNXOptions{Size: []int{8, 8}, Index: -1}},
		"onnx.index is 7":                   {"means.onnx", ONNXOptions{Size: []int{8, 8}, Index: 7}},
		`no output "logits"`:                {"means.onnx", ONNXOptions{Size: []int{8, 8}, Index: 0, Output: "logits"}},
		"rows of a YOLO are":                {"means.onnx", ONNXOptions{Size: []int{8, 8}, Index: -1, Boxes: "yolo"}},
		"the network has outputs":           {"means.onnx", ONNXOptions{Size: []int{8, 8}, Index: -1, Boxes: "detr"}},
		"no such file":                      {"nothing.onnx", ONNXOptions{}},
		"smaller than the input of 80 x 80": {"yolo.onnx", ONNXOptions{Index: 0, Fit: "crop", Resize: []int{40, 40}}},
	} {
		if _, err := opened(t, c.file, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// TestCheck: keys that contradict each other are reported.
func TestCheck(t *testing.T) {
	check := func(o ONNXOptions, path string) (keys []string) {
		k := onnxKeys{}
		k.Path, k.ONNX = path, &o
		ONNXKind.Check(k, func(key, _, _ string) { keys = append(keys, key) })
		slices.Sort(keys)
		return keys
	}
	for _, c := range []struct {
		o    ONNXOptions
		path string
		want []string
	}{
		{ONNXOptions{Preset: "yolo"}, "a.onnx", nil},
		{ONNXOptions{Reduce: "count"}, "a.onnx", []string{"onnx.reduce"}},
		{ONNXOptions{Preset: "yolo", Reduce: "mean"}, "a.onnx", []string{"onnx.reduce"}},
		{ONNXOptions{Mean: []float64{1}, Size: []int{3}}, "a.pt", []string{"onnx.mean", "onnx.size", "path"}},
	} {
		if got := check(c.o, c.path); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v; want %v", c.o, got, c.want)
		}
	}
}
