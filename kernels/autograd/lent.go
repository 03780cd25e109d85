package autograd

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// A Desk holds one lent weight at a time, in the form that products read: the next one that is read takes its place.
// A network whose frozen weights are lent takes the memory of its largest layer, and makes every weight anew in every
// pass, with the same bits.
type Desk struct{ on *Param }

// NewLent is a frozen weight, made by pack whenever a product reads it and another one lies on the desk.
func NewLent(name string, shape []int, conv kernels.ConvShape, pool *tensor.Pool, d *Desk, pack func() *kernels.Packed) *Param {
	return &Param{Name: name, Shape: shape, Conv: conv, pool: pool, desk: d, pack: pack}
}

// lend puts a lent weight on its desk.
func (p *Param) lend() {
	if p.desk == nil || p.desk.on == p {
		return
	}
	p.desk.clear()
	w := p.pack()
	p.packed[w.Math], p.desk.on = w, p
}

func (d *Desk) clear() {
	if d != nil && d.on != nil {
		d.on.dropPacked()
		d.on = nil
	}
}
