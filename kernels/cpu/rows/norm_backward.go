package rows

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

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
