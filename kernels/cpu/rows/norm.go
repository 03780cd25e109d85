package rows

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Slots of scratch that norms hold on to.
const (
	weightSlot = iota
	biasSlot
	scaleSlot
	shiftSlot
	rowSlot
	gradSlot
)

var negativeZero = math.Float32frombits(1 << 31)

// Norm is ref.Norm: a sum, squares, and the result, three passes over a row that stays
// in L1. An absent weight is 1 and an absent bias -0, which change no bit of
// fma(n, w, b).
func (e *Engine) Norm(a *kernels.Norm, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 || badNorm(a) {
		ref.Norm(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	inv := ref.Div(1, float32(n))
	p := w.affine(a)
	for r := lo; r < hi; r++ {
		x := rowOf(a.X, r)
		mean := float32(0)
		if a.Kind == kernels.LayerNorm {
			var total float32
			x, total = w.sumOf(rowSlot, x, n)
			mean = ref.Mul(total, inv)
			if !a.Mean.Empty() {
				a.Mean.F32()[r] = mean
			}
		}
		x = w.known(norm, rowSlot, x, n)
		w.s[0] = mean
		variance := ref.Mul(w.sum(squares, n, x), inv)
		rstd := ref.Div(1, ref.Sqrt(ref.Add(variance, a.Eps)))
		if !a.Rstd.Empty() {
			a.Rstd.F32()[r] = rstd
		}
		w.s[1] = rstd
		p.sample(w, r)
		w.finish(p, n, x, rowOf(a.Y, r))
	}
}

// badNorm leaves ref to panic.
func badNorm(a *kernels.Norm) bool {
	n := a.X.Cols
	return !a.Weight.Empty() && a.Weight.Len < n || !a.Bias.Empty() && a.Bias.Len < n || (!a.Scale.Empty() || !a.Shift.Empty()) && a.RowsPerSample <= 0
}

// affine is what follows normalisation: one fma, or two, or none.
type affine struct {
	a            *kernels.Norm
	weight, bias operand
	scale, shift []float32 // nil: none
	at           int       // the sample whose scale and shift are held
}

// plain: there is neither weight nor bias.
func (p *affine) plain() bool { return p.a.Weight.Empty() && p.a.Bias.Empty() }

func (w *work) affine(a *kernels.Norm) *affine {
	n := a.X.Cols
	p := &affine{a: a, at: -1}
	if !p.plain() {
		p.weight, p.bias = w.parameter(weightSlot, a.Weight, n, 1), w.parameter(biasSlot, a.Bias, n, negativeZero)
	}
	if !a.Scale.Empty() || !a.Shift.Empty() {
		p.scale, p.shift = w.filled(scaleSlot, n, 1), w.filled(shiftSlot, n, negativeZero)
	}
	return p
}

// parameter is a span in fp32, or a number where it is absent.
func (w *work) parameter(slot int, s kernels.Span, n int, otherwise float32) operand {
	if s.Empty() {
		return own(w.filled(slot, n, otherwise))
	}
	return w.widened(slot, from(s, 0), n)
}

// sample takes up the modulation of row r's sample.
func (p *affine) sample(w *work, r int) {
	if p.scale == nil || r/p.a.RowsPerSample == p.at {
		return
	}
	p.at = r / p.a.RowsPerSample
	n := len(p.scale)
	if !p.a.Scale.Empty() {
		w.apply(onePlus, n, own(p.scale), rowOf(p.a.Scale, p.at))
	}
	if !p.a.Shift.Empty() {
		w.load(p.shift, rowOf(p.a.Shift, p.at))
	}
}

// finish writes the row y from x.
func (w *work) finish(p *affine, n int, x, y operand) {
	k, src := normAlone, []operand{x}
	if !p.plain() {
		k, src = norm, append(src, p.weight, p.bias)
	}
	if p.scale != nil {
		k++ // normAlone, norm, normTwice
		src = append(src, own(p.scale), own(p.shift))
	}
	f := w.kernel(k, x.d, y.d)
	if f != nil {
		w.call(f, n, y, src, 0)
		return
	}
	src[0] = w.widened(rowSlot, x, n)
	to := y
	if y.d != kernels.F32 {
		to = own(w.row(rowSlot, n))
	}
	w.call(w.kernel(k, kernels.F32, kernels.F32), n, to, src, 0)
	if y.d != kernels.F32 {
		w.store(y, to, n)
	}
}

// normalised puts row r, normalised with the forward's statistics, into dst.
func (w *work) normalised(a *kernels.Norm, r int, dst []float32) (rstd float32) {
	w.s[0] = 0
	if a.Kind == kernels.LayerNorm {
		w.s[0] = a.Mean.F32()[r]
	}
	rstd = a.Rstd.F32()[r]
	w.s[1] = rstd
	w.apply(normAlone, len(dst), own(dst), rowOf(a.X, r))
	return rstd
}
