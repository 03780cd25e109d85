package vae

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// A convolution that is causal in time reads a frame and the two before it. Clips go through in chunks:
// the first frame alone, then the frames of one frame of latents at a time. Each layer keeps the last
// frames that it read, and the next chunk goes on after them; before the first there are zeros. So
// memory is that of a chunk, and a frame's bits are those of a clip that goes through whole.
//
// Kept frames are values on the tape: gradients go back through all chunks.

// stream is a clip on its way through a half.
type stream struct {
	tp    *autograd.Tape
	first bool              // the chunk is the clip's first frame
	kept  []*autograd.Value // by layer, in the order that they run in
	at    int
}

// chunk begins another chunk.
func (s *stream) chunk(first bool) { s.first, s.at = first, 0 }

// before returns the frames that the current layer kept: n frames; zeros before the first chunk.
func (s *stream) before(n, h, w, c int) *autograd.Value {
	if s.at == len(s.kept) {
		zeros := s.tp.Pool().Zeros(s.tp.DType, n, h, w, c).Named("frames before a clip")
		defer zeros.Free()
		s.kept = append(s.kept, s.tp.Input(zeros))
	}
	s.at++
	return s.kept[s.at-1]
}

// keep stores the frames for the next chunk, of the layer that called before i calls ago.
func (s *stream) keep(i int, x *autograd.Value) {
	old := &s.kept[s.at-1-i]
	if *old != x {
		s.tp.Release(*old)
		*old = x
	}
}

// inBlock runs layers as a unit of memory: they take x and their kept frames, and return the result and the frames to
// keep.
func (s *stream) inBlock(f func(in ...*autograd.Value) []*autograd.Value, in ...*autograd.Value) *autograd.Value {
	out := s.tp.Block(f, in...)
	for i, kept := range out[1:] {
		s.keep(len(out)-2-i, kept)
	}
	s.tp.Release(in[0])
	return out[0]
}

// causal is a convolution over three frames.
type causal struct{ *nn.FrameConv }

func newCausal(p *nn.Params, name string, in, out int) causal {
	return causal{p.FrameConv(name, nn.Square(in, out, 3, 1, 1), 3, 1)}
}

// apply convolves x, which follows the two frames before; it also returns the last two.
func (c causal) apply(tp *autograd.Tape, x, before, residual *autograd.Value) (y, last *autograd.Value) {
	long := tp.Concat(0, before, x)
	y = c.FrameConv.Apply(tp, long, residual)
	last = tp.Part(long, long.Dim(0)-2, long.Dim(0))
	tp.Release(long)
	return y, last
}

// inStream is apply of a layer that is a unit of memory by itself.
func (c causal) inStream(s *stream, x *autograd.Value) *autograd.Value {
	before := s.before(2, x.Dim(1), x.Dim(2), x.Dim(3))
	return s.inBlock(func(in ...*autograd.Value) []*autograd.Value {
		y, last := c.apply(s.tp, in[0], in[1], nil)
		return []*autograd.Value{y, last}
	}, x, before)
}
