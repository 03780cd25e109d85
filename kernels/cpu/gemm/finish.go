package gemm

import (
	"math"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

var negativeZero = math.Float32frombits(1 << 31)

// columns has a bit for each column of panel j that C has.
func (p *product) columns(j int) uint32 { return bits(min(panel, p.n-j*panel)) }

// finish is the epilogue of a block: one pass over scratch for each thing asked for,
// and one that stores.
func (p *product) finish(s *arena, m0, rows, j int) {
	c, ps := s.get(partC), p.u.passes()
	row := unsafe.Slice((*float32)(s.get(partBias)), panel)
	if p.alpha != 1 && len(p.Segments) == 0 {
		fill(row, p.alpha)
		ps.mul[kernels.F32](c, s.get(partBias), 0, rows, bits(panel))
		p.setBias(s, j)
	}
	if p.later {
		if !p.Bias.Empty() {
			ps.add[kernels.F32](c, s.get(partBias), 0, rows, bits(panel))
			fill(row, negativeZero)
		}
		if !p.Pre.Empty() {
			p.store(s, p.Pre, m0, rows, j)
		}
		if p.Act != kernels.Identity {
			p.e.Activate(p.Act, unsafe.Slice((*float32)(c), rows*panel))
		}
		if !p.Gate.Empty() {
			p.gate(c, m0, rows, j)
		}
		if !p.Residual.Empty() {
			p.pass(ps.add, c, p.Residual, m0, rows, j)
		}
		if p.Accumulate {
			p.pass(ps.add, c, p.C, m0, rows, j)
		}
	}
	p.store(s, p.C, m0, rows, j)
}

// setBias puts the panel's biases into scratch. Where there are none it is -0, which
// changes no number that it is added to.
func (p *product) setBias(s *arena, j int) {
	row := unsafe.Slice((*float32)(s.get(partBias)), panel)
	fill(row, negativeZero)
	if !p.Bias.Empty() {
		ref.Load(row[:min(panel, p.n-j*panel)], p.Bias, j*panel)
	}
}

func fill(row []float32, x float32) {
	for i := range row {
		row[i] = x
	}
}

// pass combines a block with the same block of a matrix.
func (p *product) pass(f [2]pass, c unsafe.Pointer, m kernels.Mat, m0, rows, j int) {
	o := operandOf(m, false)
	f[m.DType](c, o.at(m0, j*panel), o.stride, rows, p.columns(j))
}

// gate multiplies runs of rows that share a row of Gate.
func (p *product) gate(c unsafe.Pointer, m0, rows, j int) {
	o := operandOf(p.Gate, false)
	for r := 0; r < rows; {
		row := (m0 + r) / p.GateRows
		n := min(rows-r, (row+1)*p.GateRows-m0-r)
		p.u.passes().mul[p.Gate.DType](unsafe.Add(c, r*panel*4), o.at(row, j*panel), 0, n, p.columns(j))
		r += n
	}
}

func (p *product) store(s *arena, m kernels.Mat, m0, rows, j int) {
	o := operandOf(m, false)
	p.u.passes().store[m.DType](s.get(partC), o.at(m0, j*panel), o.stride, rows, p.columns(j), s.get(partBias))
}
