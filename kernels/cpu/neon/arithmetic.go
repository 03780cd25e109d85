package neon

// Rounding are the registers that Round uses: three constants and two that it changes.
type Rounding struct{ One, Most, Quiet, T, U int }

// Constants loads Round's constants. R26 is lost.
func (r Rounding) Constants(w *Writer) {
	w.SplatF(r.One, 1)
	w.Splat(r.Most, 0x7fff)
	w.Splat(r.Quiet, 0x400000)
}

// Round rounds fp32 to bf16, as ref.ToBF16 does, in the upper half of each word; the lower half is undefined.
func (r Rounding) Round(w *Writer, v int) {
	w.FMUL(v, v, r.One) // a denormal becomes the zero of its sign
	w.FCMEQ(r.U, v, v)
	w.SHL(r.T, v, 15)
	w.USHR(r.T, r.T, 31)
	w.ADD(r.T, r.T, r.Most)
	w.ADD(r.T, r.T, v)
	w.ORR(v, v, r.Quiet)
	w.BIT(v, r.T, r.U)
}

// RoundResult is Round for results of arithmetic: neither denormal, nor a NaN that is not quiet. It leaves bf16 as
// fp32; mask holds the upper halves of words.
func (r Rounding) RoundResult(w *Writer, v, mask int) {
	w.FCMEQ(r.U, v, v)
	w.SHL(r.T, v, 15)
	w.USHR(r.T, r.T, 31)
	w.ADD(r.T, r.T, r.Most)
	w.ADD(r.T, r.T, v)
	w.BIT(v, r.T, r.U)
	w.AND(v, v, mask)
}

// Exp2 are the registers with which Power makes 2^x of ref.Exp2, or of ref.Exp2Short.
type Exp2 struct {
	Coefficients []float32 // from the highest power; the last is 1
	Short        bool      // f is measured from the floor, not from the nearest whole number
	First        int       // of the registers that hold the coefficients
	Least, Bias  int       // -126, and 127 as a whole number
	N, F, P, Q   int       // changed
}

// Constants loads Power's constants. R26 is lost.
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
