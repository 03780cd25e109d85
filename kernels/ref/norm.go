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
