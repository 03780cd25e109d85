package ppocr

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// TestBoxes: a bar of a map becomes one box, larger than the bar; a faint one and a dot become none.
func TestBoxes(t *testing.T) {
	const w, h = 60, 40
	m := make([]float32, w*h)
	bar := func(x0, y0, x1, y1 int, v float32) {
		for y := y0; y < y1; y++ {
			for x := x0; x < x1; x++ {
				m[y*w+x] = v
			}
		}
	}
	bar(10, 10, 40, 18, 0.9)
	bar(10, 28, 40, 34, 0.4)
	bar(50, 4, 52, 6, 1)
	found := Paddle().Of(m, w, h, 2*w, 2*h)
	if len(found) != 1 || math.Abs(found[0].Score-0.9) > 1e-6 {
		t.Fatalf("%+v", found)
	}
	q := found[0].Box
	if q[0].X >= 20 || q[0].Y >= 20 || q[2].X <= 78 || q[2].Y <= 34 || q[0].X != q[3].X || q[0].Y != q[1].Y {
		t.Errorf("a box at %v", q)
	}
	if found := (Boxes{Threshold: 0.3, Score: 0.3, Most: 10, Unclip: 1.5, Slow: true}).Of(m, w, h, w, h); len(found) != 2 || math.Abs(found[1].Score-0.9) > 1e-6 {
		t.Errorf("by outlines: %+v", found)
	}
	// A frame has an outline outside and one around its hole.
	clear(m)
	bar(10, 5, 50, 35, 1)
	bar(16, 11, 44, 29, 0)
	if steps, n := Paddle().Steps(m, w, h, 10); n != 2 || len(steps) != 2 || steps[0].Box[0].X != 15 || steps[1].Box[0].X != 10 {
		t.Errorf("%d outlines, %+v", n, steps)
	}
}

// TestDecode: repeated classes and blanks go, a class behind the characters is a space.
func TestDecode(t *testing.T) {
	text, score := Decode([]int{0, 1, 1, 0, 1, 2, 4, 3}, []float32{1, 0.5, 0.1, 1, 0.7, 0.8, 0.9, 0.6}, []string{"a", "b", "c"})
	if text != "aab c" || score != 0.7 {
		t.Errorf("%q, %v", text, score)
	}
	if text, score := Decode([]int{0, 0}, []float32{1, 1}, nil); text != "" || score != 0 {
		t.Errorf("%q, %v", text, score)
	}
}

// TestCrop: a box of whole pixels is the picture's part, and a high one is turned.
func TestCrop(t *testing.T) {
	m := vision.New(20, 20)
	for i := range m.Pix {
		m.Pix[i] = uint8(i * 7)
	}
	c := Crop(m, Quad{{4, 3}, {12, 3}, {12, 9}, {4, 9}})
	if c.Width != 8 || c.Height != 6 || c.Pix[0] != m.Pix[3*(3*20+4)] || c.Pix[3*(5*8+7)+1] != m.Pix[3*(8*20+11)+1] {
		t.Errorf("%d x %d", c.Width, c.Height)
	}
	c = Crop(m, Quad{{4, 3}, {8, 3}, {8, 15}, {4, 15}})
	if c.Width != 12 || c.Height != 4 || c.Pix[0] != m.Pix[3*(3*20+7)] {
		t.Errorf("turned: %d x %d", c.Width, c.Height)
	}
	if Crop(m, Quad{{4, 3}, {4, 3}, {4, 3}, {4, 3}}) != nil {
		t.Error("a picture of no area")
	}
}

// TestOpen: missing networks, two of one kind, and a recogniser without characters are named.
func TestOpen(t *testing.T) {
	small, err := os.ReadFile("../../rewards/scorers/testdata/means.onnx")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	open := func() error {
		_, err := Open(dir, Rapid(), onnx.Options{Backend: ref.Backend{}})
		return err
	}
	put := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want string) {
		t.Helper()
		if err := open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	says("no .onnx file there is named")
	put("my_det.onnx", small)
	put("my_rec.onnx", small)
	says("have no characters")
	put("characters.txt", []byte("a\nb\n"))
	if err := open(); err != nil {
		t.Error(err)
	}
	put("other_det.onnx", small)
	says("two networks are named det")
	put("other_det.onnx", nil)
	if err := os.Remove(filepath.Join(dir, "my_det.onnx")); err != nil {
		t.Fatal(err)
	}
	says("no graph")
}
