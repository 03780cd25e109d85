package ref

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Norm, for rows lo to hi-1, with the sums of sum.go and inv = 1/Cols:
//
//	LayerNorm  mean = sum(x)·inv; d = x - mean; var = dot(d, d)·inv
//	RMSNorm    d = x; var = dot(x, x)·inv
//	rstd = 1 / sqrt(var + eps); n = d·rstd
//	with Weight n·w, with Bias too fma(n, w, b); then with Scale and Shift
//	fma(n, 1 + scale, shift)
func Norm(a *kernels.Norm, lo, hi int) {
	p := newNormRow(a)
	for r := lo; r < hi; r++ {
		p.load(r)
		mean, rstd := p.statistics()
		p.normalise(mean, rstd)
		if !a.Mean.Empty() && a.Kind == kernels.LayerNorm {
			a.Mean.F32()[r] = mean
		}
		if !a.Rstd.Empty() {
			a.Rstd.F32()[r] = rstd
		}
		y := p.affine(r)
		StoreRow(a.Y, r, y)
	}
}

// normRow is the working space of one row.
type normRow struct {
	a            *kernels.Norm
	inv          float32
	x, y         []float32 // x becomes the normalised row
	weight, bias []float32
	scale, shift []float32
}

func newNormRow(a *kernels.Norm) *normRow {
	n := a.X.Cols
	if !a.Weight.Empty() && a.Weight.Len < n || !a.Bias.Empty() && a.Bias.Len < n || (!a.Scale.Empty() || !a.Shift.Empty()) && a.RowsPerSample <= 0 {
		panic(fmt.Sprintf("kernels: Norm of %d columns: a parameter is too short, or RowsPerSample is %d", n, a.RowsPerSample))
	}
	p := &normRow{a: a, inv: Div(1, float32(n)), x: make([]float32, n), y: make([]float32, n)}
	p.weight, p.bias = loadAll(a.Weight, n), loadAll(a.Bias, n)
	p.scale, p.shift = rowIf(a.Scale, n), rowIf(a.Shift, n)
	return p
}

// loadAll widens a parameter; nil where it is absent.
func loadAll(s kernels.Span, n int) []float32 {
	if s.Empty() {
		return nil
	}
	x := make([]float32, n)
	Load(x, s, 0)
	return x
}

func rowIf(m kernels.Mat, n int) []float32 {
	if m.Empty() {
		return nil
	}
	return make([]float32, n)
}

// load reads row r, and the modulation of its sample.
func (p *normRow) load(r int) {
	LoadRow(p.x, p.a.X, r)
	if p.scale != nil {
		LoadRow(p.scale, p.a.Scale, r/p.a.RowsPerSample)
	}
	if p.shift != nil {
		LoadRow(p.shift, p.a.Shift, r/p.a.RowsPerSample)
	}
}

func (p *normRow) statistics() (mean, rstd float32) {
	x := p.x
	if p.a.Kind == kernels.LayerNorm {
		mean = Mul(sum(x), p.inv)
		for i, v := range x {
			p.y[i] = Sub(v, mean)
		}
		x = p.y
	}
	variance := Mul(dot(x, x), p.inv)
	return mean, Div(1, Sqrt(Add(variance, p.a.Eps)))
}

// normalise turns x into (x - mean)·rstd.
func (p *normRow) normalise(mean, rstd float32) {
	for i, v := range p.x {
		if p.a.Kind == kernels.LayerNorm {
			v = Sub(v, mean)
		}
		p.x[i] = Mul(v, rstd)
	}
}

// affine is the row after Weight, Bias, Scale and Shift.
func (p *normRow) affine(r int) []float32 {
	for i, n := range p.x {
		n = p.weighted(i, n)
		switch {
		case p.scale != nil && p.shift != nil:
			n = FMA(n, Add(1, p.scale[i]), p.shift[i])
		case p.scale != nil:
			n = Mul(n, Add(1, p.scale[i]))
		case p.shift != nil:
			n = Add(n, p.shift[i])
		}
		p.y[i] = n
	}
	return p.y
}

func (p *normRow) weighted(i int, n float32) float32 {
	switch {
	case p.weight != nil && p.bias != nil:
		return FMA(n, p.weight[i], p.bias[i])
	case p.weight != nil:
		return Mul(n, p.weight[i])
	case p.bias != nil:
		return Add(n, p.bias[i])
	}
	return n
}

// Norm normalises every row.
func (Backend) Norm(a *kernels.Norm) { Norm(a, 0, a.X.Rows) }

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
