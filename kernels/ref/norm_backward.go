package ref

import "github.com/darkroom-rl/darkroom/kernels"

// NormBackward is DX for rows lo to hi-1. With n the normalised row,
//
//	g = DY·(1 + scale)·w;  c1 = sum(g)·inv (LayerNorm; 0 for RMSNorm);  c2 = dot(g, n)·inv
//	DX = (g - c1 - n·c2)·rstd, as fma(-n, c2, g - c1)·rstd
func NormBackward(a *kernels.NormBackward, lo, hi int) {
	if a.DX.Empty() {
		return
	}
	p := newNormRow(&a.Norm)
	g := make([]float32, a.X.Cols)
	for r := lo; r < hi; r++ {
		rstd := p.again(a, r)
		LoadRow(g, a.DY, r)
		for i := range g {
			if p.scale != nil {
				g[i] = Mul(g[i], Add(1, p.scale[i]))
			}
			if p.weight != nil {
				g[i] = Mul(g[i], p.weight[i])
			}
		}
		c1, c2 := float32(0), Mul(dot(g, p.x), p.inv)
		if a.Kind == kernels.LayerNorm {
			c1 = Mul(sum(g), p.inv)
		}
		for i := range g {
			d := g[i]
			if a.Kind == kernels.LayerNorm {
				d = Sub(d, c1)
			}
			g[i] = Mul(FMA(-p.x[i], c2, d), rstd)
		}
		StoreRow(a.DX, r, g)
	}
}

// again loads row r and normalises it with the forward's statistics.
func (p *normRow) again(a *kernels.NormBackward, r int) (rstd float32) {
	p.load(r)
	mean := float32(0)
	if a.Kind == kernels.LayerNorm {
		mean = a.Mean.F32()[r]
	}
	rstd = a.Rstd.F32()[r]
	p.normalise(mean, rstd)
	return rstd
}

// NormBackwardParams is the gradients of Weight, Bias, Scale and Shift for all
// columns of samples lo to hi-1, which must be called in order: rows of a sample are
// added one after another from +0 (DWeight and DScale by fma), then the sample's
// sums are added to DWeight and DBias.
//
//	dn = DY·(1 + scale);  DWeight += dn·n;  DBias += dn
//	DShift = sum of DY;  DScale = sum of DY·(n·w + b)
func NormBackwardParams(a *kernels.NormBackward, lo, hi int) {
	p := newNormRow(&a.Norm)
	n := a.X.Cols
	per := a.RowsPerSample
	if per <= 0 {
		per = a.X.Rows
	}
	dy := make([]float32, n)
	for s := lo; s < hi; s++ {
		dw, db, dscale, dshift := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		for r := s * per; r < min((s+1)*per, a.X.Rows); r++ {
			p.again(a, r)
			LoadRow(dy, a.DY, r)
			for i, d := range dy {
				dshift[i] = Add(dshift[i], d)
				dscale[i] = FMA(d, p.weighted(i, p.x[i]), dscale[i])
				if p.scale != nil {
					d = Mul(d, Add(1, p.scale[i]))
				}
				dw[i] = FMA(d, p.x[i], dw[i])
				db[i] = Add(db[i], d)
			}
		}
		addTo(a.DWeight, dw)
		addTo(a.DBias, db)
		if !a.DScale.Empty() {
			StoreRow(a.DScale, s, dscale)
		}
		if !a.DShift.Empty() {
			StoreRow(a.DShift, s, dshift)
		}
	}
}

// addTo adds a sample's gradient to an f32 accumulator, if there is one.
func addTo(dst kernels.Span, g []float32) {
	if dst.Empty() {
		return
	}
	d := dst.F32()
	for i, v := range g {
		d[i] = Add(d[i], v)
	}
}

// Samples is how many samples rows make, per rows each; 0 means one.
func Samples(rows, per int) int {
	if per <= 0 {
		return min(rows, 1)
	}
	return (rows + per - 1) / per
}

// NormBackward computes every gradient.
func (Backend) NormBackward(a *kernels.NormBackward) {
	NormBackward(a, 0, a.X.Rows)
	NormBackwardParams(a, 0, Samples(a.X.Rows, a.RowsPerSample))
}
