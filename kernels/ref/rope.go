package ref

import "github.com/darkroom-rl/darkroom/kernels"

// Rope, for tokens lo to hi-1 (of B·S): with (a, b) a pair of elements,
//
//	(fma(a, cos, -(b·sin)), fma(b, cos, a·sin));  Inverse turns by -sin
//
// Elements of an odd last place, or beyond the table's width, are copied.
func Rope(a *kernels.Rope, lo, hi int) {
	d := a.X.D
	half := a.Cos.Cols
	x, cos, sin := make([]float32, d), make([]float32, half), make([]float32, half)
	for t := lo; t < hi; t++ {
		b, s := t/a.X.S, t%a.X.S
		row := s
		if a.Cos.Rows > a.X.S {
			row = t
		}
		LoadRow(cos, a.Cos, row)
		LoadRow(sin, a.Sin, row)
		for h := range a.X.H {
			Load(x, a.X.Span, a.X.At(b, s, h))
			for i := range half {
				p, q := 2*i, 2*i+1
				if a.Kind == kernels.RopeHalves {
					p, q = i, i+half
				}
				sn := sin[i]
				if a.Inverse {
					sn = -sn
				}
				u, v := x[p], x[q]
				x[p] = FMA(u, cos[i], -Mul(v, sn))
				x[q] = FMA(v, cos[i], Mul(u, sn))
			}
			Store(a.Y.Span, a.Y.At(b, s, h), x)
		}
	}
}

// Rope turns every token.
func (Backend) Rope(a *kernels.Rope) { Rope(a, 0, a.X.B*a.X.S) }
