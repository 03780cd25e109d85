package ref

import "github.com/darkroom-rl/darkroom/kernels"

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
