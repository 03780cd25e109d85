// Package nodetest runs the official tests of ONNX's operators: NAME/model.onnx, and beside it
// test_data_set_0/input_N.pb and output_N.pb, in the order of the graph's inputs and outputs.
package nodetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/vision/onnx"
	"github.com/darkroom-rl/darkroom/vision/onnx/proto"
)

// A Tolerance is the official comparison's: |got - want| <= Abs + Rel |want|.
type Tolerance struct{ Rel, Abs float64 }

// Usual is the tolerance of most official cases.
var Usual = Tolerance{Rel: 1e-3, Abs: 1e-7}

// A Case is one official case.
type Case struct {
	Op     string // of the first node that is not a constant
	model  *onnx.Model
	inputs map[string]*onnx.Tensor
	want   []*onnx.Tensor
}

// Open reads a case. Op is known where the file can be read, also with an error.
func Open(root fs.FS, dir string, be onnx.Backend) (c Case, err error) {
	data, err := fs.ReadFile(root, path.Join(dir, "model.onnx"))
	if err != nil {
		return c, err
	}
	file, err := proto.Read(data)
	if err != nil {
		return c, err
	}
	if file.Graph == nil {
		return c, errors.New("no graph")
	}
	for _, n := range file.Graph.Nodes {
		if c.Op = n.Op; c.Op != "Constant" {
			break
		}
	}
	for _, i := range slices.Concat(file.Graph.Inputs, file.Graph.Outputs) {
		if i.Type == 0 {
			return c, fmt.Errorf("%s is not a tensor", i.Name)
		}
	}
	if c.model, err = onnx.Parse(dir, data, onnx.Options{Backend: be, Limits: onnx.Limits{Time: time.Minute}}); err != nil {
		return c, err
	}
	read := func(kind string, i int) (*onnx.Tensor, error) {
		data, err := fs.ReadFile(root, fmt.Sprintf("%s/test_data_set_0/%s_%d.pb", dir, kind, i))
		if err != nil {
			return nil, err
		}
		p, err := proto.ReadTensor(data)
		if err != nil {
			return nil, err
		}
		return onnx.Decode(p)
	}
	c.inputs = map[string]*onnx.Tensor{}
	for i, in := range file.Graph.Inputs {
		if c.inputs[in.Name], err = read("input", i); err != nil {
			return c, err
		}
	}
	for i := range c.model.Outputs() {
		t, err := read("output", i)
		if err != nil {
			return c, err
		}
		c.want = append(c.want, t)
	}
	return c, nil
}

// Run is the largest share of the tolerance that an output takes; its error is for a share above 1, and for outputs
// of another type or shape.
func (c Case) Run(ctx context.Context, allowed Tolerance) (share float64, err error) {
	got, err := c.model.Run(ctx, c.inputs)
	if err != nil {
		return math.Inf(1), err
	}
	for i, out := range c.model.Outputs() {
		of, err := within(got[out.Name], c.want[i], allowed)
		if share = max(share, of); err != nil {
			return share, fmt.Errorf("output %d: %w", i, err)
		}
	}
	return share, nil
}

// within is the official comparison: shape and type equal, numbers within the tolerance, NaN equal to NaN. The cases
// of float16 and bfloat16 were computed with sums of that type, each step rounded; ours are of float32, rounded once.
// They may differ by two steps of the type.
func within(got, want *onnx.Tensor, allowed Tolerance) (share float64, err error) {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return math.Inf(1), fmt.Errorf("%v; want %v", got, want)
	}
	rel := max(allowed.Rel, map[onnx.Type]float64{onnx.Float16: 2.0 / 1024, onnx.BFloat16: 2.0 / 128}[want.Type])
	for i := range want.Len() {
		if want.S != nil {
			if got.S[i] != want.S[i] {
				return math.Inf(1), fmt.Errorf("element %d is %q; want %q", i, got.S[i], want.S[i])
			}
			continue
		}
		g, w := number(got, i), number(want, i)
		if g == w || g != g && w != w {
			continue
		}
		of := math.Abs(g-w) / (allowed.Abs + rel*math.Abs(w))
		if of != of || math.IsInf(w, 0) { // infinities of two signs, NaN and a number
			of = math.Inf(1)
		}
		if share = max(share, of); of > 1 {
			return share, fmt.Errorf("element %d is %v; want %v", i, g, w)
		}
	}
	return share, nil
}

// number is an element of any type of numbers.
func number(t *onnx.Tensor, i int) float64 {
	switch {
	case t.F != nil:
		return float64(t.F[i])
	case t.D != nil:
		return t.D[i]
	case t.Type == onnx.Uint64:
		return float64(uint64(t.I[i]))
	}
	return float64(t.I[i])
}
