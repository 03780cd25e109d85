package faces

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// Card: SCRFD (Guo et al. 2021) and RetinaFace as insightface runs them (model_zoo/retinaface.py). The picture keeps
// its proportions and lies in the upper left of a black square; pixels are (x - 127.5) / 128, red first. The network
// has nine outputs: of steps of 8, 16 and 32 pixels the scores, the boxes, the points, of two places at each step; or
// fifteen, of steps up to 128, of one place. A place counts at Least; its box is the distances to four sides, its
// points those to five, in steps. Boxes are dropped that overlap a surer one by more than Overlap, with sides of a
// pixel more, as upstream counts. Networks without points are refused. Invariant (test): recorded faces of upstream.

// A Face is one that was found.
type Face struct {
	Box    [4]float64 // left, top, right, bottom, of the picture
	Score  float64
	Points Landmarks
}

// A Detector is SCRFD.
type Detector struct {
	model          *onnx.Model
	side           int
	Least, Overlap float64
}

// OpenDetector opens a network. Side is that of its input, where the file leaves it open.
func OpenDetector(path string, side int, o onnx.Options) (*Detector, error) {
	m, err := onnx.Open(path, o)
	if err != nil {
		return nil, err
	}
	if side, err = sideOf(path, m, side); err != nil {
		return nil, err
	}
	if n := len(m.Outputs()); n != 9 && n != 15 {
		return nil, fmt.Errorf("%s: it has %d outputs; a face detector with points has 9 or 15: scores, boxes and points of three or five steps\nhint: det_10g.onnx or scrfd_..._kps.onnx of insightface", path, n)
	}
	if most := 8 << (len(m.Outputs())/3 - 1); side%most != 0 {
		return nil, fmt.Errorf("%s: its input is %d pixels wide; a multiple of %d is needed", path, side, most)
	}
	d := &Detector{model: m, side: side, Least: 0.5, Overlap: 0.4}
	// A network of other outputs is refused before anything is drawn.
	if _, err := d.Find(context.Background(), vision.New(side, side)); err != nil {
		return nil, fmt.Errorf("%s: on a black picture: %w", path, err)
	}
	return d, nil
}

// Bytes are those of the file.
func (d *Detector) Bytes() int64 { return d.model.Bytes() }

// Peak is the most bytes that a run took so far, and its input.
func (d *Detector) Peak() int64 { return d.model.Peak() + int64(4*3*d.side*d.side) }

// sideOf is the side of a network's square input.
func sideOf(path string, m *onnx.Model, usual int) (int, error) {
	in := m.Inputs()
	if len(in) != 1 || in[0].Known && (len(in[0].Shape) != 4 || in[0].Shape[1] >= 0 && in[0].Shape[1] != 3) {
		return 0, fmt.Errorf("%s: its inputs are %v; one of float[N,3,H,W] is needed", path, in)
	}
	if in[0].Known && in[0].Shape[2] > 0 && in[0].Shape[3] > 0 {
		if in[0].Shape[2] != in[0].Shape[3] {
			return 0, fmt.Errorf("%s: its input is %v; a square is needed", path, in[0])
		}
		usual = in[0].Shape[2]
	}
	return usual, nil
}

// Find is the faces of a picture, the surest first.
func (d *Detector) Find(ctx context.Context, m *vision.Image) ([]Face, error) {
	if m.Width < 1 || m.Height < 1 {
		return nil, nil
	}
	w, h, scale := fitted(m.Width, m.Height, d.side)
	small, err := m.ResizeOpenCV(w, h)
	if err != nil {
		return nil, err
	}
	x := make([]float32, 3*d.side*d.side)
	for i := range x {
		x[i] = -127.5 / 128
	}
	for c := range 3 {
		for y := range h {
			for i := range w {
				x[(c*d.side+y)*d.side+i] = (float32(small.Pix[3*(y*w+i)+c]) - 127.5) / 128
			}
		}
	}
	out, err := d.model.Run(ctx, map[string]*onnx.Tensor{d.model.Inputs()[0].Name: onnx.Floats(x, 1, 3, d.side, d.side)})
	if err != nil {
		return nil, err
	}
	var outputs [][]float32
	for i, o := range d.model.Outputs() {
		t := out[o.Name]
		steps := len(d.model.Outputs()) / 3
		of := d.side / (8 << (i % steps))
		want := atEach(steps) * of * of * []int{1, 4, 10}[i/steps]
		if t.Type != onnx.Float || t.Len() != want {
			return nil, fmt.Errorf("output %q is %v; %d numbers are needed", o.Name, t, want)
		}
		outputs = append(outputs, t.F)
	}
	return Kept(Places(outputs, d.side, scale, d.Least), d.Overlap), nil
}

// fitted are the sides of a picture within a square, and their scale.
func fitted(width, height, side int) (w, h int, scale float64) {
	w, h = side, side
	ratio := float64(height) / float64(width)
	if ratio > 1 {
		w = max(1, int(float64(h)/ratio))
	} else {
		h = max(1, int(float64(w)*ratio))
	}
	return w, h, float64(h) / float64(height)
}

// atEach is how many places a network has at each step.
func atEach(steps int) int {
	if steps == 5 {
		return 1
	}
	return 2
}

// Places are the places of at least a score. The outputs are scores, boxes and points, each of steps of 8, 16 and so
// on; scale is that of the network's picture.
func Places(outputs [][]float32, side int, scale, least float64) (found []Face) {
	steps := len(outputs) / 3
	for s := range steps {
		step := 8 << s
		wide := side / step
		scores, boxes, points := outputs[s], outputs[steps+s], outputs[2*steps+s]
		for i, score := range scores {
			if score < float32(least) {
				continue
			}
			at := i / atEach(steps)
			cx, cy := float32(at%wide*step), float32(at/wide*step)
			d := func(v float32) float32 { return v * float32(step) }
			b, k := boxes[4*i:], points[10*i:]
			f := Face{Score: float64(score)}
			for j, v := range []float32{cx - d(b[0]), cy - d(b[1]), cx + d(b[2]), cy + d(b[3])} {
				f.Box[j] = float64(v / float32(scale))
			}
			for j := range f.Points {
				f.Points[j] = Point{float64((cx + d(k[2*j])) / float32(scale)), float64((cy + d(k[2*j+1])) / float32(scale))}
			}
			found = append(found, f)
		}
	}
	return found
}

// Kept are the faces that no surer one overlaps.
func Kept(found []Face, most float64) (kept []Face) {
	slices.SortStableFunc(found, func(a, b Face) int { return cmp.Compare(b.Score, a.Score) })
	area := func(b [4]float64) float64 { return (b[2] - b[0] + 1) * (b[3] - b[1] + 1) }
	for _, f := range found {
		if !slices.ContainsFunc(kept, func(k Face) bool {
			w := max(0, min(f.Box[2], k.Box[2])-max(f.Box[0], k.Box[0])+1)
			h := max(0, min(f.Box[3], k.Box[3])-max(f.Box[1], k.Box[1])+1)
			both := w * h
			return both/(area(k.Box)+area(f.Box)-both) > most
		}) {
			kept = append(kept, f)
		}
	}
	return kept
}

// Largest is the face of the largest box; false without one.
func Largest(found []Face) (Face, bool) {
	if len(found) == 0 {
		return Face{}, false
	}
	return slices.MaxFunc(found, func(a, b Face) int {
		area := func(f Face) float64 { return (f.Box[2] - f.Box[0]) * (f.Box[3] - f.Box[1]) }
		return cmp.Compare(area(a), area(b))
	}), true
}
