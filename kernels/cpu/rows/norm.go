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

// affine is the step after normalisation: one fma, or two, or none.
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
	var room [5]operand
	k, src := normAlone, append(room[:0], x)
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

// NormBackward is ref.NormBackward: DX of rows lo to hi-1.
func (e *Engine) NormBackward(a *kernels.NormBackward, lo, hi int) {
	n := a.X.Cols
	if e.set == nil || n == 0 || badNorm(&a.Norm) || a.DX.Empty() {
		ref.NormBackward(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	inv := ref.Div(1, float32(n))
	bare := a.Norm // DY meets weight and scale alone
	bare.Bias, bare.Shift = kernels.Span{}, kernels.Mat{}
	p := w.affine(&bare)
	x, g := w.row(rowSlot, n), w.row(gradSlot, n)
	for r := lo; r < hi; r++ {
		rstd := w.normalised(&a.Norm, r, x)
		p.sample(w, r)
		dy := rowOf(a.DY, r)
		if p.scale != nil {
			w.apply(mul, n, own(g), dy, own(p.scale))
		} else {
			w.load(g, dy)
		}
		if !p.plain() {
			w.apply(mul, n, own(g), own(g), p.weight)
		}
		c1, c2 := float32(0), ref.Mul(w.sum(dot, n, own(g), own(x)), inv)
		if a.Kind == kernels.LayerNorm {
			c1 = ref.Mul(w.sum(sum, n, own(g)), inv)
		}
		w.s[0], w.s[1], w.s[2] = c1, c2, rstd
		w.apply(normGrad, n, rowOf(a.DX, r), own(x), own(g))
	}
}

// NormBackwardParams is ref.NormBackwardParams for columns lo to hi-1 of all samples.
func (e *Engine) NormBackwardParams(a *kernels.NormBackward, lo, hi int) {
	if e.set == nil || badNorm(&a.Norm) {
		if lo == 0 { // ref takes all columns
			ref.NormBackwardParams(a, 0, ref.Samples(a.X.Rows, a.RowsPerSample))
		}
		return
	}
	if a.DWeight.Empty() && a.DBias.Empty() && a.DScale.Empty() && a.DShift.Empty() || lo == hi {
		return
	}
	w := e.begin()
	defer w.end(e)
	c := columnsOf(a, lo, hi)
	n := hi - lo
	weight, bias := w.parameter(weightSlot, c.Weight, n, 1), w.parameter(biasSlot, c.Bias, n, negativeZero)
	x, d, scale := w.row(gradSlot, n), w.row(shiftSlot, n), w.row(scaleSlot, n)
	sums := make([]float32, 4*n)
	dw, db, dscale, dshift := sums[:n], sums[n:2*n], sums[2*n:3*n], sums[3*n:]
	per := c.RowsPerSample
	if per <= 0 {
		per = c.X.Rows
	}
	for s := range ref.Samples(c.X.Rows, c.RowsPerSample) {
		clear(sums)
		if !c.Scale.Empty() {
			w.apply(onePlus, n, own(scale), rowOf(c.Scale, s))
		}
		for r := s * per; r < min((s+1)*per, c.X.Rows); r++ {
			w.normalised(&c.Norm, r, x)
			w.load(d, rowOf(c.DY, r))
			w.apply(add, n, own(dshift), own(dshift), own(d))
			y := w.row(rowSlot, n)
			w.apply(fma, n, own(y), own(x), weight, bias)
			w.apply(fma, n, own(dscale), own(d), own(y), own(dscale))
			if !c.Scale.Empty() {
				w.apply(mul, n, own(d), own(d), own(scale))
			}
			w.apply(fma, n, own(dw), own(d), own(x), own(dw))
			w.apply(add, n, own(db), own(db), own(d))
		}
		w.addTo(c.DWeight, dw)
		w.addTo(c.DBias, db)
		w.put(c.DScale, s, dscale)
		w.put(c.DShift, s, dshift)
	}
}

// columnsOf is the same gradient for a range of columns.
func columnsOf(a *kernels.NormBackward, lo, hi int) *kernels.NormBackward {
	c := *a
	for _, m := range []*kernels.Mat{&c.X, &c.DY, &c.Scale, &c.Shift, &c.DScale, &c.DShift} {
		if !m.Empty() {
			*m = m.ColRange(lo, hi)
		}
	}
	for _, s := range []*kernels.Span{&c.Weight, &c.Bias, &c.DWeight, &c.DBias} {
		if !s.Empty() {
			*s = s.Slice(lo, hi)
		}
	}
	return &c
}

func (w *work) addTo(s kernels.Span, x []float32) {
	if !s.Empty() {
		w.apply(add, len(x), from(s, 0), from(s, 0), own(x))
	}
}

func (w *work) put(m kernels.Mat, r int, x []float32) {
	if !m.Empty() {
		w.apply(actIdentity, len(x), rowOf(m, r), own(x))
	}
}
