package ref

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Conv, for output rows lo to hi-1 (of N·OH).
//
// A pixel's k runs over dy, then dx, then the input channel. Padding is zeros that are
// multiplied, as in a product over a padded picture.
//
//	MathF32   one chain of fma over all of k, from +0
//	MathBF16  for each dy the KW·In values, zero-padded to 32, follow the bf16 rule;
//	          the sum runs on over dy
//
// Then Bias, Act and Residual as in Gemm.
func Conv(a *kernels.Conv, lo, hi int) {
	s := a.Shape
	oh, ow := s.OutSize(a.H, a.W)
	weight := convWeight(a)
	w := make([]float32, s.Out*s.KH*s.KW*s.In)
	Load(w, weight, 0)
	lines := weightLines(a.Math, w, s.Out)
	bias := loadAll(a.Bias, s.Out)
	patch, y, res := make([]float32, s.KH*s.KW*s.In), make([]float32, s.Out), make([]float32, s.Out)
	for r := lo; r < hi; r++ {
		for x := range ow {
			loadPatch(patch, a, r/oh, (r%oh)*s.Stride-s.Top, x*s.Stride-s.Left)
			if a.Math == kernels.MathBF16 {
				roundAll(patch)
			}
			patchSums(a.Math, y, patch, lines, s.KW*s.In)
			if bias != nil {
				combine(Add, y, bias)
			}
			activate(a.Act, y)
			at := (r*ow + x) * s.Out
			if !a.Residual.Empty() {
				Load(res, a.Residual, at)
				combine(Add, y, res)
			}
			Store(a.Y, at, y)
		}
	}
}

// patchSums is patch · w for lines of weights, whose parts over dy are row long.
func patchSums(m kernels.Math, y, patch []float32, w []line, row int) {
	product, x := productOf(m), newLine(patch)
	if m == kernels.MathF32 {
		row = len(patch)
	}
	for o := 0; o < len(y); o += 4 {
		var sum [4]float32
		some := w[o:min(o+4, len(y))]
		for at := 0; at < len(patch); at += row {
			product(&sum, x.part(at, row), some, at, row)
		}
		copy(y[o:], sum[:len(some)])
	}
}

// weightLines cuts a weight into one line an output.
func weightLines(m kernels.Math, w []float32, outputs int) []line {
	if m == kernels.MathBF16 {
		roundAll(w)
	}
	l, k := make([]line, outputs), len(w)/max(outputs, 1)
	for o := range l {
		l[o] = newLine(w[o*k : (o+1)*k])
	}
	return l
}

// loadPatch is the KH·KW·In values under an output pixel, zeros outside the picture.
func loadPatch(dst []float32, a *kernels.Conv, n, top, left int) {
	s := a.Shape
	for dy := range s.KH {
		for dx := range s.KW {
			part := dst[(dy*s.KW+dx)*s.In:][:s.In]
			y, x := top+dy, left+dx
			if y < 0 || y >= a.H || x < 0 || x >= a.W {
				clear(part)
				continue
			}
			Load(part, a.X, ((n*a.H+y)*a.W+x)*s.In)
		}
	}
}

func convWeight(a *kernels.Conv) kernels.Span {
	if a.Packed == nil {
		return a.Weight
	}
	return PackedRows(a.Packed).Span
}

// PackConv keeps the weight as it is.
func (b Backend) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	k := s.KH * s.KW * s.In
	if w.Len != s.Out*k {
		panic(fmt.Sprintf("kernels: PackConv of %d elements for a weight [%d,%d,%d,%d]", w.Len, s.Out, s.KH, s.KW, s.In))
	}
	p := b.Pack(kernels.NewMat(w, s.Out, k), m)
	p.Conv = s
	return p
}

// Conv computes every row.
func (Backend) Conv(a *kernels.Conv) {
	oh, _ := a.Shape.OutSize(a.H, a.W)
	Conv(a, 0, a.N*oh)
}
