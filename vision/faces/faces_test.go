package faces

import (
	"compress/gzip"
	"encoding/json"
	"image/color"
	"math"
	"os"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
)

// TestRecorded: boxes, scores and points are those of insightface's RetinaFace for outputs that a rule makes.
func TestRecorded(t *testing.T) {
	f, err := os.Open("testdata/retinaface.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Outputs, Side, Width, Height int
			Least                        float64
			Found                        [][]float64
		}
	}
	if err := json.NewDecoder(z).Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("no case is recorded")
	}
	for n, c := range file.Cases {
		steps := c.Outputs / 3
		outputs := make([][]float32, c.Outputs)
		for k := range outputs {
			part, of := k/steps, c.Side/(8<<(k%steps))
			outputs[k] = make([]float32, atEach(steps)*of*of*[]int{1, 4, 10}[part])
			for i := range outputs[k] {
				u := float32(float64(uint32(uint64(i)*2654435761+uint64(10*part+k%steps)*40503)) / (1 << 32))
				outputs[k][i] = []float32{u, u * 3, u*4 - 2}[part]
			}
		}
		_, _, scale := fitted(c.Width, c.Height, c.Side)
		found := Kept(Places(outputs, c.Side, scale, c.Least), 0.4)
		if len(found) < len(c.Found) || n == 0 && len(found) != len(c.Found) || len(c.Found) < 5 {
			t.Fatalf("case %d: %d faces; %d are recorded", n, len(found), len(c.Found))
		}
		for i, want := range c.Found {
			g := found[i]
			got := append(g.Box[:], g.Score)
			for _, p := range g.Points {
				got = append(got, p.X, p.Y)
			}
			for k, w := range want {
				if math.Abs(got[k]-w) > 1e-5*math.Max(1, math.Abs(w)) {
					t.Errorf("case %d, face %d: number %d is %v; want %v", n, i, k, got[k], w)
				}
			}
		}
	}
}

// TestAlign: points that lie in the template's places leave a face as it is, and points of one place have none.
func TestAlign(t *testing.T) {
	m := vision.NewFilled(112, 112, color.RGBA{10, 20, 30, 255})
	m.Pix[3*(50*112+60)] = 200
	got := Align(m, template, 112)
	for i, v := range m.Pix {
		if got.Pix[i] != v {
			t.Fatalf("byte %d is %d; want %d", i, got.Pix[i], v)
		}
	}
	if Align(m, Landmarks{}, 112) != nil {
		t.Error("a face of one point")
	}
	// Half the size, moved: the matrix is that similarity.
	var l Landmarks
	for i, p := range template {
		l[i] = Point{2*p.X + 7, 2*p.Y - 3}
	}
	for i, want := range [6]float64{0.5, 0, -3.5, 0, 0.5, 1.5} {
		if got := Matrix(l, 112)[i]; math.Abs(got-want) > 1e-12 {
			t.Errorf("number %d of the matrix is %v; want %v", i, got, want)
		}
	}
	if l, _ := Largest([]Face{{Box: [4]float64{0, 0, 2, 2}}, {Box: [4]float64{0, 0, 9, 9}, Score: 1}}); l.Score != 1 {
		t.Error("the smaller face is the largest")
	}
}
