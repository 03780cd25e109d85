package faces

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// Card: ArcFace (Deng et al. 2019): an IResNet takes an aligned face, (x - 127.5) / 127.5, red first, to a vector; two
// faces are alike by the cosine of theirs. With Flip the vector of the mirrored face is added first, as upstream's
// verification does. Held to eyes.face_similarity.

// A Network is an ArcFace.
type Network struct {
	model *onnx.Model
	side  int
	Flip  bool
}

// OpenNetwork opens a network.
func OpenNetwork(path string, o onnx.Options) (*Network, error) {
	m, err := onnx.Open(path, o)
	if err != nil {
		return nil, err
	}
	n := &Network{model: m}
	if n.side, err = sideOf(path, m, 112); err != nil {
		return nil, err
	}
	if n.side%112 != 0 && n.side%128 != 0 {
		return nil, fmt.Errorf("%s: its input is %d pixels wide; aligned faces are multiples of 112 or 128", path, n.side)
	}
	if _, err := n.vector(context.Background(), vision.New(n.side, n.side)); err != nil {
		return nil, fmt.Errorf("%s: on a black picture: %w", path, err)
	}
	return n, nil
}

// Peak is the most bytes that a run took so far, and its input.
func (n *Network) Peak() int64 { return n.model.Peak() + int64(4*3*n.side*n.side) }

// Vector is a face's, not of length 1.
func (n *Network) Vector(ctx context.Context, m *vision.Image, l Landmarks) ([]float64, error) {
	face := Align(m, l, n.side)
	if face == nil {
		return nil, errors.New("a face's points are one")
	}
	v, err := n.vector(ctx, face)
	if err != nil || !n.Flip {
		return v, err
	}
	other, err := n.vector(ctx, mirrored(face))
	if err != nil {
		return nil, err
	}
	for i := range v {
		v[i] += other[i]
	}
	return v, nil
}

func (n *Network) vector(ctx context.Context, face *vision.Image) ([]float64, error) {
	size := n.side * n.side
	x := make([]float32, 3*size)
	for i := range size {
		for c := range 3 {
			x[c*size+i] = (float32(face.Pix[3*i+c]) - 127.5) / 127.5
		}
	}
	out, err := n.model.Run(ctx, map[string]*onnx.Tensor{n.model.Inputs()[0].Name: onnx.Floats(x, 1, 3, n.side, n.side)})
	if err != nil {
		return nil, err
	}
	t := out[n.model.Outputs()[0].Name]
	if t.Type != onnx.Float || t.Len() < 2 {
		return nil, fmt.Errorf("its output is %v; a vector is needed", t)
	}
	v := make([]float64, t.Len())
	for i, f := range t.F {
		v[i] = float64(f)
	}
	return v, nil
}

// mirrored is a picture with left and right exchanged.
func mirrored(m *vision.Image) *vision.Image {
	out := vision.New(m.Width, m.Height)
	for y := range m.Height {
		for x := range m.Width {
			copy(out.Pix[3*(y*m.Width+x):][:3], m.Pix[3*(y*m.Width+m.Width-1-x):])
		}
	}
	return out
}

// Cosine is how alike two vectors are.
func Cosine(a, b []float64) (float64, error) {
	if len(a) != len(b) {
		return 0, fmt.Errorf("vectors of %d and %d numbers", len(a), len(b))
	}
	var ab, aa, bb float64
	for i, v := range a {
		ab, aa, bb = ab+float64(v*b[i]), aa+float64(v*v), bb+float64(b[i]*b[i])
	}
	if aa == 0 || bb == 0 {
		return 0, errors.New("a vector is zero, which has no direction")
	}
	return ab / (math.Sqrt(aa) * math.Sqrt(bb)), nil
}
