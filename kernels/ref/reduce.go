package ref

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// SumRows is the sum of columns lo to hi-1: rows of a sample one after another from
// +0, samples added in order, to Out where Accumulate is set.
func SumRows(a *kernels.SumRows, lo, hi int) {
	out := a.Out.F32()[lo:hi]
	if !a.Accumulate {
		clear(out)
	}
	segments := a.Segments
	if len(segments) == 0 {
		segments = []int{a.X.Rows}
	}
	row, acc := make([]float32, hi-lo), make([]float32, hi-lo)
	r := 0
	for _, n := range segments {
		clear(acc)
		for range n {
			Load(row, a.X.Span, r*a.X.Stride+lo)
			for i, v := range row {
				acc[i] = Add(acc[i], v)
			}
			r++
		}
		for i, v := range acc {
			out[i] = Add(out[i], v)
		}
	}
}

// Reduce, for rows lo to hi-1: terms in fp32, added in float64 over the tree of sum.go.
func Reduce(a *kernels.Reduce, lo, hi int) {
	x, y := make([]float32, a.X.Cols), make([]float32, a.X.Cols)
	for r := lo; r < hi; r++ {
		LoadRow(x, a.X, r)
		var l lanes64
		most := float32(0)
		switch a.Op {
		case kernels.ReduceSum:
			for i, v := range x {
				l.add(i, v)
			}
		case kernels.ReduceSquares:
			for i, v := range x {
				l.add(i, Mul(v, v))
			}
		case kernels.ReduceDot:
			LoadRow(y, a.Y, r)
			for i, v := range x {
				l.add(i, Mul(v, y[i]))
			}
		case kernels.ReduceMax:
			for _, v := range x {
				v = math.Float32frombits(math.Float32bits(v) &^ (1 << 31))
				if v > most || v != v {
					most = v
				}
				if most != most {
					break
				}
			}
			a.Out.F64()[r] = float64(most)
			continue
		}
		a.Out.F64()[r] = l.total()
	}
}

// SumRows computes every column.
func (Backend) SumRows(a *kernels.SumRows) { SumRows(a, 0, a.X.Cols) }

// Reduce computes every row.
func (Backend) Reduce(a *kernels.Reduce) { Reduce(a, 0, a.X.Rows) }
