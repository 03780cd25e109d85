package vae

import (
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Shortcuts of Wan 2.2's levels go around all of a level, without weights. A box of frames x side x
// side pixels becomes channels, of which the shortcut takes means of groups (on the way down), or
// channels become such a box, repeated as often as is needed (on the way up). Channels in a box are
// numbered c·box + (frame·side + row)·side + column.

// shortcut is a level's change of size and channels.
type shortcut struct {
	in, out, frames, side int
	w                     *autograd.Param // of the means, or the choice of channels
}

func (c shortcut) box() int { return c.frames * c.side * c.side }

// newMeans is the way down: a mean of in·box/out neighbours.
func newMeans(p *nn.Params, name string, in, out, frames, side int) *shortcut {
	c := &shortcut{in: in, out: out, frames: frames, side: side}
	group := in * c.box() / out
	share := make([]float32, group)
	for i := range share {
		share[i] = 1 / float32(group)
	}
	c.w = p.Constant(name+": the shares of a mean", share, 1, group)
	return c
}

// down is x [T, H, W, in], made smaller. Zero frames come first where there are too few.
func (c *shortcut) down(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	if missing := -x.Dim(0) % c.frames; missing != 0 {
		zeros := tp.Pool().Zeros(x.Tensor().DType(), c.frames+missing, x.Dim(1), x.Dim(2), c.in)
		defer zeros.Free()
		x = tp.Concat(0, tp.Input(zeros), x)
	}
	t, h, w := x.Dim(0)/c.frames, x.Dim(1)/c.side, x.Dim(2)/c.side
	y := tp.Permute(tp.Reshape(x, t*c.frames*h, c.side, w, c.side, c.in), 0, 2, 4, 1, 3)
	y = tp.Permute(tp.Reshape(y, t, c.frames, h*w*c.in, c.side*c.side), 0, 2, 1, 3)
	means := tp.Linear(tp.Reshape(y, t*h*w*c.out, c.w.Shape[1]), c.w, autograd.With{})
	return tp.Reshape(means, t, h, w, c.out)
}

// newRepeats is the way up: place b of a box reads channel (o·box + b)·in/(out·box) for channel o.
func newRepeats(p *nn.Params, name string, in, out, frames, side int) *shortcut {
	c := &shortcut{in: in, out: out, frames: frames, side: side}
	choice := make([]float32, c.box()*out*in)
	for b := range c.box() {
		for o := range out {
			choice[(b*out+o)*in+(o*c.box()+b)*in/(out*c.box())] = 1
		}
	}
	c.w = p.Constant(name+": the channel of each place", choice, c.box()*out, in)
	return c
}

// up is x [T, H, W, in], made larger; of a clip's first frame one frame is kept, the last.
func (c *shortcut) up(tp *autograd.Tape, x *autograd.Value, first bool) *autograd.Value {
	t, h, w := x.Dim(0), x.Dim(1), x.Dim(2)
	y := tp.Linear(x, c.w, autograd.With{})
	y = tp.Permute(tp.Reshape(y, t, h*w, c.frames, c.side*c.side*c.out), 0, 2, 1, 3)
	y = tp.Permute(tp.Reshape(y, t*c.frames*h, w, c.side, c.side*c.out), 0, 2, 1, 3)
	y = tp.Reshape(y, t*c.frames, h*c.side, w*c.side, c.out)
	if first {
		y = tp.Part(y, c.frames-1, y.Dim(0))
	}
	return y
}
