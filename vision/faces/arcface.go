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

// A Network is an ArcFace: an ONNX file, or an IResNet.
type Network struct {
	embedder
	side int
	Flip bool
}

// An embedder turns an aligned face into its vector.
type embedder interface {
	vector(ctx context.Context, face *vision.Image) ([]float64, error)
}

// OpenNetwork opens an ONNX file.
func OpenNetwork(path string, o onnx.Options) (*Network, error) {
	m, err := onnx.Open(path, o)
	if err != nil {
		return nil, err
	}
	side, err := sideOf(path, m, 112)
	if err != nil {
		return nil, err
	}
	if err := alignable(side); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	n := &Network{embedder: exported{m, side}, side: side}
	if err := n.Try(context.Background()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// Network is the IResNet as a network of faces in pictures.
func (e *Embedder) Network() *Network { return &Network{embedder: e, side: e.Shape.Side()} }

// Close gives an IResNet's memory back.
func (n *Network) Close() {
	if e, ok := n.embedder.(*Embedder); ok {
		e.Close()
	}
}

// Try runs the network once.
func (n *Network) Try(ctx context.Context) error {
	if _, err := n.vector(ctx, vision.New(n.side, n.side)); err != nil {
		return fmt.Errorf("on a black picture: %w", err)
	}
	return nil
}

// Peak is the most bytes that a run of an ONNX file took so far, and its input. It is 0 of an IResNet: its memory is
// its device's.
func (n *Network) Peak() int64 {
	if f, ok := n.embedder.(exported); ok {
		return f.model.Peak() + int64(4*3*n.side*n.side)
	}
	return 0
}

// alignable refuses a size of faces that the template is not known for.
func alignable(side int) error {
	if side%112 != 0 && side%128 != 0 {
		return fmt.Errorf("its input is %d pixels wide; aligned faces are multiples of 112 or 128", side)
	}
	return nil
}

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

// exported is an ONNX file.
type exported struct {
	model *onnx.Model
	side  int
}

func (n exported) vector(ctx context.Context, face *vision.Image) ([]float64, error) {
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

// CosineSlope is the derivative of Cosine by its first vector.
func CosineSlope(a, b []float64) []float64 {
	var ab, aa, bb float64
	for i, v := range a {
		ab, aa, bb = ab+float64(v*b[i]), aa+float64(v*v), bb+float64(b[i]*b[i])
	}
	out, norms := make([]float64, len(a)), math.Sqrt(aa)*math.Sqrt(bb)
	for i, v := range a {
		out[i] = b[i]/norms - float64(ab/norms*(v/aa))
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
