package vae

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Between levels sides are halved or doubled, and time with them where the level says so. A clip's
// first frame stays one frame.

// halving is a convolution of every other pixel, then one of every other frame and the two around it.
type halving struct {
	conv *nn.Conv
	time *nn.FrameConv // nil: time stays
}

func newHalving(p *nn.Params, width int, time bool) *halving {
	// One pixel of padding, on the right and below.
	shape := kernels.ConvShape{In: width, Out: width, KH: 3, KW: 3, Stride: 2, Bottom: 1, Right: 1}
	h := &halving{conv: p.Conv("resample.1", shape, true)}
	if time {
		h.time = p.FrameConv("time_conv", nn.Square(width, width, 1, 1, 0), 3, 2)
	}
	return h
}

func (d *halving) apply(s *stream, x *autograd.Value) *autograd.Value {
	tp, in := s.tp, []*autograd.Value{x}
	if d.time != nil {
		in = append(in, s.before(1, (x.Dim(1)+1)/2, (x.Dim(2)+1)/2, x.Dim(3)))
	}
	first := s.first
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		y := d.conv.Apply(tp, in[0], nil)
		if d.time == nil {
			return []*autograd.Value{y}
		}
		last := tp.Part(y, y.Dim(0)-1, y.Dim(0))
		if first {
			return []*autograd.Value{y, last}
		}
		return []*autograd.Value{d.time.Apply(tp, tp.Concat(0, in[1], y), nil), last}
	}, in...)
}

// doubling is a convolution that makes two frames of each, then one of the frames doubled. The first
// frame is passed by, and those after it are convolved as if it were not there.
type doubling struct {
	time *nn.FrameConv // nil: time stays
	conv *nn.Doubled
}

func newDoubling(p *nn.Params, in, out int, time bool) *doubling {
	d := &doubling{conv: p.Doubled("resample.1", in, out)}
	if time {
		d.time = p.FrameConv("time_conv", nn.Square(in, 2*in, 1, 1, 0), 3, 1)
	}
	return d
}

func (d *doubling) apply(s *stream, x *autograd.Value) *autograd.Value {
	tp, in := s.tp, []*autograd.Value{x}
	t, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	if d.time != nil {
		in = append(in, s.before(2, h, w, c))
	}
	if d.time == nil || s.first {
		return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
			return append([]*autograd.Value{d.conv.Apply(tp, in[0])}, in[1:]...)
		}, in...)
	}
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		y, last := causal{d.time}.apply(tp, in[0], in[1], nil)
		pairs := tp.Permute(tp.Reshape(y, t, h*w, 2, c), 0, 2, 1, 3)
		return []*autograd.Value{d.conv.Apply(tp, tp.Reshape(pairs, 2*t, h, w, c)), last}
	}, in...)
}
