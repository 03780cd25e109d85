package nn

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// FrameConv is a convolution over time and space, of frames [F, H, W, In]. It pads nothing in time
// (autograd.ConvFrames).
type FrameConv struct {
	Name   string
	Frames int // of the kernel
	Stride int // in time
	W, B   *autograd.Param
}

// FrameConv asks for name.weight [out, in, frames, KH, KW] and name.bias; s is the geometry of each
// frame. No adapter can sit on it.
func (p *Params) FrameConv(name string, s kernels.ConvShape, frames, stride int) *FrameConv {
	in := fanIn(s.In * s.KH * s.KW * frames)
	return &FrameConv{Name: p.name(name), Frames: frames, Stride: stride,
		W: p.getFrames(name+".weight", matrix, in, s, frames, s.Out, s.In, frames, s.KH, s.KW),
		B: p.get(name+".bias", vector, in, kernels.ConvShape{}, s.Out)}
}

// Apply computes the layer, plus residual (nil for none).
func (c *FrameConv) Apply(tp *autograd.Tape, x, residual *autograd.Value) *autograd.Value {
	return tp.ConvFrames(x, c.W, c.Stride, autograd.ConvWith{Bias: c.B, Residual: residual})
}

// ApplyWide computes the layer as F32, whatever the type of activations: a network's last.
func (c *FrameConv) ApplyWide(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	return tp.ConvFrames(x, c.W, c.Stride, autograd.ConvWith{Bias: c.B, Wide: true})
}

// ConvOfFrames asks for name.weight [out, in/frames, frames, KH, KW] and name.bias: a convolution that reads some
// frames at once and goes on by as many is one of pictures that have all their channels, channel by channel.
func (p *Params) ConvOfFrames(name string, s kernels.ConvShape, frames int) *Conv {
	in := fanIn(s.In * s.KH * s.KW)
	return &Conv{Name: p.name(name), W: p.get(name+".weight", matrix, in, s, s.Out, s.In/frames, frames, s.KH, s.KW),
		B: p.get(name+".bias", vector, in, kernels.ConvShape{}, s.Out)}
}

// ConvOfFrame asks for name.weight [out, in, 1, KH, KW] and name.bias: a convolution over time and
// space whose kernel has one frame is one of pictures, the frames.
func (p *Params) ConvOfFrame(name string, s kernels.ConvShape) *Conv {
	return p.ConvOfFrames(name, s, 1)
}

// RMSNormAs asks for an RMS norm's weight by its full name and the shape on the disk.
func (p *Params) RMSNormAs(name string, eps float32, shape ...int) *Norm {
	return &Norm{Kind: kernels.RMSNorm, Weight: p.get(name, vector, initial{value: 1}, kernels.ConvShape{}, shape...), Eps: eps}
}
