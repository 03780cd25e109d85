package neon

// Exp2 are the registers with which Power makes 2^x of ref.Exp2, or of ref.Exp2Short.
type Exp2 struct {
	Coefficients []float32 // from the highest power; the last is 1
	Short        bool      // f is measured from the floor, not from the nearest whole number
	First        int       // of the registers that hold the coefficients
	Least, Bias  int       // -126, and 127 as a whole number
	N, F, P, Q   int       // changed
}

// Constants loads what Power needs. R26 is lost.
func (e Exp2) Constants(w *Writer) {
	for i, c := range e.Coefficients {
		w.SplatF(e.First+i, c)
	}
	w.SplatF(e.Least, -126)
	w.Splat(e.Bias, 127)
}

// Power makes register x its power of two: 0 below -126, NaN for NaN. Where the result is not
// 0 it is normal, so that nothing is flushed but by exponents of no use.
func (e Exp2) Power(w *Writer, x int) {
	if e.Short {
		w.FRINTM(e.N, x)
	} else {
		w.FRINTN(e.N, x)
	}
	w.FSUB(e.F, x, e.N)
	from, to := e.First, e.P
	for i := range e.Coefficients[1:] {
		w.MOV(to, e.First+1+i)
		w.FMLA(to, from, e.F)
		from, to = to, e.P+e.Q-to
	}
	w.FCVTNS(e.N, e.N)
	w.ADD(e.N, e.N, e.Bias)
	w.SHL(e.N, e.N, 23)
	w.FCMGT(e.F, e.Least, x)
	w.FMUL(x, from, e.N)
	w.BIC(x, x, e.F)
}
