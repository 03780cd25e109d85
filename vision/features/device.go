package features

import (
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Precision is what networks compute in.
type Precision int

// The precisions. In BF16 the operands of products and the activations are bf16.
const (
	F32 Precision = iota
	BF16
)

// A Device is memory and what computes in it. Networks that share one may be asked from any
// goroutine: they wait for each other.
type Device struct {
	pool      *tensor.Pool
	precision Precision
	turn      sync.Mutex
}

// On is a device over memory that nothing else uses meanwhile.
func On(pool *tensor.Pool, p Precision) *Device { return &Device{pool: pool, precision: p} }

func (d *Device) math() kernels.Math {
	return [...]kernels.Math{F32: kernels.MathF32, BF16: kernels.MathBF16}[d.precision]
}

func (d *Device) dtype() kernels.DType {
	return [...]kernels.DType{F32: kernels.F32, BF16: kernels.BF16}[d.precision]
}

// Load hands parameters of a source to a network that build makes, all of them frozen, and
// reports what is missing, misshapen or left over.
func (d *Device) Load(src nn.Source, build func(p *nn.Params)) (*nn.Params, error) {
	d.turn.Lock()
	defer d.turn.Unlock()
	p, err := nn.New(nn.Options{Pool: d.pool, Math: d.math(), Source: src})
	if err != nil {
		return nil, err
	}
	build(p)
	if err := p.Check(); err != nil {
		p.Free()
		return nil, err
	}
	return p, nil
}

// Free gives a network's memory back.
func (d *Device) Free(p *nn.Params) {
	d.turn.Lock()
	defer d.turn.Unlock()
	p.Free()
	d.pool.Trim()
}

// Run computes something on a tape that is thrown away afterwards.
func (d *Device) Run(train bool, f func(tp *autograd.Tape)) {
	d.turn.Lock()
	defer d.turn.Unlock()
	tp := autograd.New(d.pool, autograd.Options{DType: d.dtype(), Math: d.math(), Train: train})
	defer tp.Reset()
	f(tp)
}

// Rows are a value's rows on the host.
func Rows(v *autograd.Value) [][]float64 {
	cols := v.Dim(-1)
	var rows [][]float64
	for x := v.F32(); len(x) >= cols && cols > 0; x = x[cols:] {
		row := make([]float64, cols)
		for i := range row {
			row[i] = float64(x[i])
		}
		rows = append(rows, row)
	}
	return rows
}
