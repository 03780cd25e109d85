package neon

// Rounding are the registers that Round uses: three constants and two that it changes.
type Rounding struct{ One, Most, Quiet, T, U int }

// Constants loads what Round needs. R26 is lost.
func (r Rounding) Constants(w *Writer) {
	w.SplatF(r.One, 1)
	w.Splat(r.Most, 0x7fff)
	w.Splat(r.Quiet, 0x400000)
}

// Round rounds fp32 to bf16, as ref.ToBF16 does, in the upper half of each word; what the
// lower half holds is undefined.
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

// RoundResult is Round for what arithmetic made: neither denormal, nor a NaN that is not quiet. It
// leaves bf16 as fp32; mask holds the upper halves of words.
func (r Rounding) RoundResult(w *Writer, v, mask int) {
	w.FCMEQ(r.U, v, v)
	w.SHL(r.T, v, 15)
	w.USHR(r.T, r.T, 31)
	w.ADD(r.T, r.T, r.Most)
	w.ADD(r.T, r.T, v)
	w.BIT(v, r.T, r.U)
	w.AND(v, v, mask)
}
