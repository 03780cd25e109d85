package autograd

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Packed weights that lie nowhere for long.
//
// A tape that trains and is Lean keeps one packed copy of the weights that are trained, that of the product under way:
// copies of all would lie beside the values and their gradients until the update, which makes them stale. So a pass
// packs each weight twice, once in either direction. Other tapes keep the copies, for the passes of a roll or of an
// update.
//
// A Desk holds one such weight at a time, in the form that products read: the next one that is read takes its place.
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

// borrow takes the packed copy of a weight that is trained onto the tape's desk.
func (tp *Tape) borrow(p *Param) {
	if tp.Lean && tp.Train && p.Trained && tp.desk.on != p {
		tp.desk.clear()
		tp.desk.on = p
	}
}

func (d *Desk) clear() {
	if d != nil && d.on != nil {
		d.on.dropPacked()
		d.on = nil
	}
}
