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

// ConvBackwardInput is DX for picture rows lo to hi-1 (of N·H).
//
// It is a convolution of DY, spread by Stride with zeros between and padded by
// KH-1-Top and so on, with the weight turned about and its channels swapped: for the
// pixel (y, x), k runs over dy, dx from the top left of that window, then over the
// output channel; the tap at (dy, dx) is W[o, KH-1-dy, KW-1-dx, i]. The arithmetic is
// Conv's, with rows of KW·Out.
func ConvBackwardInput(a *kernels.ConvBackward, lo, hi int) {
	s := a.Shape
	oh, ow := s.OutSize(a.H, a.W)
	k := s.KH * s.KW * s.Out
	turned := weightLines(a.Math, turnedWeight(a), s.In)
	patch, dx := make([]float32, k), make([]float32, s.In)
	for r := lo; r < hi; r++ {
		n, y := r/a.H, r%a.H
		for x := range a.W {
			for t := range s.KH * s.KW {
				part := patch[t*s.Out:][:s.Out]
				u, v := y+s.Top-(s.KH-1-t/s.KW), x+s.Left-(s.KW-1-t%s.KW)
				i, j := u/s.Stride, v/s.Stride
				if u < 0 || v < 0 || u%s.Stride != 0 || v%s.Stride != 0 || i >= oh || j >= ow {
					clear(part)
					continue
				}
				Load(part, a.DY, ((n*oh+i)*ow+j)*s.Out)
			}
			if a.Math == kernels.MathBF16 {
				roundAll(patch)
			}
			patchSums(a.Math, dx, patch, turned, s.KW*s.Out)
			Store(a.DX, (r*a.W+x)*s.In, dx)
		}
	}
}

// turnedWeight is [In, KH, KW, Out], its window turned by half a turn.
func turnedWeight(a *kernels.ConvBackward) []float32 {
	s := a.Shape
	w := make([]float32, s.Out*s.KH*s.KW*s.In)
	Load(w, convWeight(&a.Conv), 0)
	t := make([]float32, len(w))
	taps := s.KH * s.KW
	for o := range s.Out {
		for p := range taps {
			for i := range s.In {
				t[(i*taps+taps-1-p)*s.Out+o] = w[(o*taps+p)*s.In+i]
			}
		}
	}
	return t
}

// ConvBackwardWeight adds the gradients of the weights and biases of output channels
// lo to hi-1. Each sample's product is formed alone, over k = its output pixels in
// order (bf16 math: zero-padded to 32 at the sample's end), and added in the order of
// the samples; DBias adds pixels one after another within a sample.
func ConvBackwardWeight(a *kernels.ConvBackward, lo, hi int) {
	if a.DWeight.Empty() && a.DBias.Empty() {
		return
	}
	s := a.Shape
	oh, ow := s.OutSize(a.H, a.W)
	pixels, row := oh*ow, s.KH*s.KW*s.In
	dy, all := make([]float32, s.Out), make([]float32, pixels*row)
	for n := range a.N {
		for p := range pixels {
			loadPatch(all[p*row:(p+1)*row], &a.Conv, n, (p/ow)*s.Stride-s.Top, (p%ow)*s.Stride-s.Left)
		}
		columns := make([]float32, pixels*row)
		for p := range pixels {
			for i := range row {
				columns[i*pixels+p] = all[p*row+i]
			}
		}
		columnLines := weightLines(a.Math, columns, row)
		for o := lo; o < hi; o++ {
			line, sum := make([]float32, pixels), float32(0)
			for p := range line {
				Load(dy, a.DY, ((n*pixels)+p)*s.Out)
				line[p] = dy[o]
				sum = Add(sum, dy[o])
			}
			if !a.DBias.Empty() {
				addTo(a.DBias.Slice(o, o+1), []float32{sum})
			}
			if a.DWeight.Empty() {
				continue
			}
			if a.Math == kernels.MathBF16 {
				roundAll(line)
			}
			g := make([]float32, row)
			patchSums(a.Math, g, line, columnLines, pixels)
			addTo(a.DWeight.Slice(o*row, (o+1)*row), g)
		}
	}
}

// ConvBackward computes every gradient that is asked for.
func (Backend) ConvBackward(a *kernels.ConvBackward) {
	if !a.DX.Empty() {
		ConvBackwardInput(a, 0, a.N*a.H)
	}
	ConvBackwardWeight(a, 0, a.Shape.Out)
}

// Upsample repeats pixels; rows lo to hi-1 are the N·H·Factor picture rows of Y.
// Between equal types bits are moved as they are; a cast goes through fp32.
func Upsample(a *kernels.Upsample, lo, hi int) {
	row, size := make([]float32, a.C), a.X.DType.Size()
	for r := lo; r < hi; r++ {
		for w := range a.W * a.Factor {
			from, to := (r/a.Factor*a.W+w/a.Factor)*a.C, (r*a.W*a.Factor+w)*a.C
			if a.X.DType == a.Y.DType {
				copy(a.Y.Raw()[to*size:(to+a.C)*size], a.X.Raw()[from*size:])
				continue
			}
			Load(row, a.X, from)
			Store(a.Y, to, row)
		}
	}
}

// UpsampleBackward adds each block of DY, its rows from the top and each row from the
// left, from +0; rows lo to hi-1 are the N·H picture rows of DX.
func UpsampleBackward(a *kernels.UpsampleBackward, lo, hi int) {
	row, acc := make([]float32, a.C), make([]float32, a.C)
	wide := a.W * a.Factor
	for r := lo; r < hi; r++ {
		for w := range a.W {
			clear(acc)
			for i := range a.Factor * a.Factor {
				Load(row, a.DY, ((r*a.Factor+i/a.Factor)*wide+w*a.Factor+i%a.Factor)*a.C)
				combine(Add, acc, row)
			}
			Store(a.DX, (r*a.W+w)*a.C, acc)
		}
	}
}

// Upsample computes every row.
func (Backend) Upsample(a *kernels.Upsample) { Upsample(a, 0, a.N*a.H*a.Factor) }

// UpsampleBackward computes every row.
func (Backend) UpsampleBackward(a *kernels.UpsampleBackward) { UpsampleBackward(a, 0, a.N*a.H) }

// Depthwise, for lines lo to hi-1 of all pictures.
func Depthwise(a *kernels.Depthwise, lo, hi int) {
	oh, ow := a.OutSize()
	x, w, y := a.X.F32(), a.Weight.F32(), a.Y.F32()
	for line := lo; line < hi; line++ {
		for ox := range ow {
			at := ((line/oh*a.H+line%oh*a.StrideY)*a.W + ox*a.StrideX) * a.C
			to := y[(line*ow+ox)*a.C:][:a.C]
			for c := range to {
				sum := float32(0)
				for p := range a.KH * a.KW {
					place := (p/a.KW*a.DilationY*a.W + p%a.KW*a.DilationX) * a.C
					sum = FMA(x[at+place+c], w[p*a.C+c], sum)
				}
				if !a.Bias.Empty() {
					sum = Add(sum, a.Bias.F32()[c])
				}
				to[c] = sum
			}
		}
	}
}

// Depthwise computes every line.
func (Backend) Depthwise(a *kernels.Depthwise) {
	oh, _ := a.OutSize()
	Depthwise(a, 0, a.N*oh)
}
