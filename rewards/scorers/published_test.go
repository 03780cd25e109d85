package scorers

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
	"github.com/darkroom-rl/darkroom/vision/ppocr"
)

var (
	networks = flag.String("networks", "", "folder of published networks, NETWORK/FILE.onnx")
	cases    = flag.String("cases", "", "folder of the recorded answers of their own runtimes")
)

// A published case has the answers of packages, as far as the test reads them.
type published struct {
	Tols  map[string]struct{ Abs, Rel float64 }
	Items []struct {
		Picture  string
		InputPNG string `json:"input_png"`
		Result   json.RawMessage
	}
}

// answers are recorded tensors of a case; of long ones 256 values.
type answers struct {
	published
	dir string
	set *safetensors.Set
}

func open(t *testing.T, name string) answers {
	t.Helper()
	a := answers{dir: filepath.Join(*cases, name)}
	data, err := os.ReadFile(filepath.Join(a.dir, "case.json"))
	if err == nil {
		err = json.Unmarshal(data, &a.published)
	}
	if err == nil {
		a.set, err = safetensors.OpenFolder(filepath.Join(a.dir, "tensors.safetensors"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a answers) picture(t *testing.T, name string) *vision.Image {
	t.Helper()
	m, err := vision.Open(filepath.Join(a.dir, name), vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// compare is the largest difference of an output from the recorded one, and that over its tolerance.
func (a answers) compare(t *testing.T, name string, got []float32) (worst, share float64) {
	t.Helper()
	x, err := a.set.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	want, err := x.Float32(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) > 2048 {
		picked := make([]float32, 256)
		for k := range picked {
			picked[k] = got[k*2654435761%len(got)]
		}
		got = picked
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d values; %d are recorded", name, len(got), len(want))
	}
	tol := a.Tols[name]
	for i, w := range want {
		d := math.Abs(float64(got[i]) - float64(w))
		worst, share = max(worst, d), max(share, d/(tol.Abs+tol.Rel*math.Abs(float64(w))))
	}
	if !(share <= 1) {
		t.Errorf("%s: differs by %.3g, %.2g of its tolerance", name, worst, share)
	}
	return worst, share
}

// TestPublished: networks that packages ship answer as their packages do: make published.
func TestPublished(t *testing.T) {
	if *networks == "" || *cases == "" {
		t.Skip("-networks and -cases name no folders: make published")
	}
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	options := onnx.Options{Backend: be, Threads: be.Threads()}
	network := func(name string) string {
		found, err := filepath.Glob(filepath.Join(*networks, name, "*.onnx"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v, %v", name, found, err)
		}
		return found[0]
	}
	nsfw := open(t, "open_nsfw")
	for name, key := range map[string]string{"open_nsfw": "keras", "open_nsfw_tf": "tf"} {
		o, err := Open(network(name), ONNXOptions{Preset: "open_nsfw", Index: -1, Fit: "stretch"}, options)
		if err != nil {
			t.Fatal(err)
		}
		worst, share := 0.0, 0.0
		for _, item := range nsfw.Items {
			out, _, err := o.run(context.Background(), nsfw.picture(t, item.InputPNG))
			if err != nil {
				t.Fatal(err)
			}
			w, s := nsfw.compare(t, "out."+key+"."+item.Picture[:len(item.Picture)-4], out[o.Model.Outputs()[0].Name].F)
			worst, share = max(worst, w), max(share, s)
		}
		t.Logf("%s: %d pictures, worst difference %.3g, %.2g of the tolerance", name, len(nsfw.Items), worst, share)
	}
	nude := open(t, "nudenet")
	o, err := Open(network("nudenet"), ONNXOptions{Preset: "nudenet", Index: -1}, options)
	if err != nil {
		t.Fatal(err)
	}
	boxes := 0
	for _, item := range nude.Items {
		m := nude.picture(t, item.Picture)
		if item.InputPNG != "" {
			out, _, err := o.run(context.Background(), m)
			if err != nil {
				t.Fatal(err)
			}
			w, s := nude.compare(t, "out.photo", out[o.Model.Outputs()[0].Name].F)
			t.Logf("nudenet: worst difference %.3g, %.2g of the tolerance", w, s)
		}
		var want []struct {
			Class string
			Score float64
			Box   []int
		}
		if err := json.Unmarshal(item.Result, &want); err != nil {
			t.Fatal(err)
		}
		found, err := o.Detect(context.Background(), m, nil)
		if err != nil || len(found) != len(want) {
			t.Fatalf("nudenet, %s: %v, %v; want %v", item.Picture, found, err, want)
		}
		for i, f := range found {
			b := []int{int(f.Box[0]), int(f.Box[1]), int(f.Box[2] - f.Box[0]), int(f.Box[3] - f.Box[1])}
			if f.Class != want[i].Class || math.Abs(f.Score-want[i].Score) > 1e-4 || !slices.Equal(b, want[i].Box) {
				t.Errorf("nudenet, %s: %v; want %v", item.Picture, f, want[i])
			}
		}
		boxes += len(found)
	}
	t.Logf("nudenet: %d pictures, all %d boxes with their classes", len(nude.Items), boxes)
	page := open(t, "ppocr")
	r, err := ppocr.Open(filepath.Join(*networks), ppocr.Rapid(), options)
	if err != nil {
		t.Fatal(err)
	}
	texts := 0
	for _, item := range page.Items {
		var want struct {
			Texts  []string
			Scores []float64
			Boxes  struct{ Data []float64 }
		}
		if err := json.Unmarshal(item.Result, &want); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		lines, err := r.Read(context.Background(), page.picture(t, item.Picture))
		if err != nil || len(lines) != len(want.Texts) {
			t.Fatalf("ppocr, %s: %v, %v; want %q", item.Picture, lines, err, want.Texts)
		}
		worst, moved := 0.0, 0.0
		for i, l := range lines {
			if l.Text != want.Texts[i] {
				t.Errorf("ppocr, %s: %q; want %q", item.Picture, l.Text, want.Texts[i])
			}
			worst = max(worst, math.Abs(l.Score-want.Scores[i]))
			for k, p := range l.Box {
				moved = max(moved, math.Abs(p.X-want.Boxes.Data[8*i+2*k]), math.Abs(p.Y-want.Boxes.Data[8*i+2*k+1]))
			}
		}
		if worst > 2e-3 || moved > 1.5 {
			t.Errorf("ppocr, %s: scores differ by %.3g, corners by %.3g pixels", item.Picture, worst, moved)
		}
		texts += len(lines)
		t.Logf("ppocr, %s: %d texts, scores within %.2g, corners within %.2g pixels, in %v", item.Picture, len(lines), worst, moved, time.Since(began).Round(time.Millisecond))
	}
	t.Logf("ppocr: all %d texts are those of the package", texts)
}
