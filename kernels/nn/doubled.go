package nn

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Doubled is a 3x3 convolution of a picture that was doubled: what autoencoders grow
// pictures with. Frozen, it is four convolutions of the small picture
// (autograd.DoubledConv); trained, it is what it is called.
type Doubled struct {
	whole  *Conv
	bias   *autograd.Param
	phases [4]*autograd.Param
}

// Doubled asks for name.weight [out, in, 3, 3] and name.bias. No adapter can sit on a frozen
// one.
func (p *Params) Doubled(name string, in, out int) *Doubled {
	s := Square(in, out, 3, 1, 1)
	r, full := p.root, p.name(name)
	if r.trains(full+".weight") || r.trains(full+".bias") {
		return &Doubled{whole: p.Conv(name, s, true)}
	}
	d, init := &Doubled{}, fanIn(in*9)
	e, src := p.stored(name+".weight", init, out, in, 3, 3)
	if e == nil {
		return d
	}
	w, err := make([]float32, out*in*9), error(nil)
	if !r.Pool.Dry() {
		w, err = src.Float32(w)
	}
	if err != nil {
		p.fail(err)
		return d
	}
	for i := range d.phases {
		phase := autograd.PhaseShape(s, i/2, i%2)
		of := &entry{name: fmt.Sprintf("%s.weight of pixels %d, %d", full, i/2, i%2), stored: []int{out, in, 2, 2}}
		if of.param, err = r.make(of, safetensors.FromF32(of.name, of.stored, taps(w, i/2, i%2)), matrix, phase, false); err != nil {
			p.fail(fmt.Errorf("%s: %w", e.name, err))
			return d
		}
		d.phases[i] = of.param
		r.fixed = append(r.fixed, of.param)
	}
	if s, ok := r.Source.(interface{ Drop(string) }); ok {
		s.Drop(e.name)
	}
	d.bias = p.get(name+".bias", vector, init, kernels.ConvShape{}, out)
	return d
}

// taps are the sums of a weight's nine that pixels of one parity read four of.
func taps(w []float32, py, px int) []float32 {
	sums := make([]float32, len(w)/9*4)
	for k := range len(w) / 9 {
		for dy := range 3 {
			for dx := range 3 {
				// Tap dy of an even row is of the pixel before, itself and itself; of an odd row
				// itself, itself and the pixel after.
				sums[k*4+(dy+1-py)/2*2+(dx+1-px)/2] += w[k*9+dy*3+dx]
			}
		}
	}
	return sums
}

// Apply doubles x and convolves it.
func (d *Doubled) Apply(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
	if d.whole == nil {
		return tp.DoubledConv(x, d.phases, d.bias)
	}
	big := tp.Upsample(x, 2)
	defer tp.Release(big)
	return d.whole.Apply(tp, big, nil)
}
