package kerneltest

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

func softmaxes() []Case {
	var all []Case
	for _, d := range floats {
		for _, cols := range Sizes[1:] {
			name := fmt.Sprintf("%s 5x%d", d, cols)
			all = append(all, Case{"Softmax", name, func(e *Env) {
				x, y := e.Mat(d, 5, cols, 1, 3), e.JunkMat(d, 5, cols, 0)
				e.B.Softmax(&kernels.Softmax{X: x, Y: y})
				e.Out("y", y.Span)
				in := e.Numbers(x.Span)
				var want []float64
				for r := range 5 {
					row, sum := in[r*x.Stride:r*x.Stride+cols], 0.0
					for _, v := range row {
						sum += math.Exp(v)
					}
					for _, v := range row {
						want = append(want, math.Exp(v)/sum)
					}
				}
				e.Near("y", y.Span, want, 1e-6, slack(d))
			}}, Case{"SoftmaxBackward", name, func(e *Env) {
				x, y, dx := e.Mat(d, 5, cols, 1, 3), e.JunkMat(d, 5, cols, 0), e.JunkMat(d, 5, cols, 2)
				e.B.Softmax(&kernels.Softmax{X: x, Y: y})
				e.B.SoftmaxBackward(&kernels.SoftmaxBackward{Y: y, DY: e.Mat(d, 5, cols, 0, 1), DX: dx})
				e.Out("dx", dx.Span)
			}}, Case{"LogSoftmaxGather", name, func(e *Env) {
				a := kernels.LogSoftmaxGather{X: e.Mat(d, 5, cols, 1, 3), Index: e.Ints([]int32{0, int32(cols - 1), -1, int32(cols / 2), 0}), Temperature: 0.7,
					Out: e.Junk(kernels.F32, 5), LSE: e.Junk(kernels.F32, 5), Entropy: e.Junk(kernels.F32, 5)}
				e.B.LogSoftmaxGather(&a)
				e.Out("out", a.Out)
				e.Out("lse", a.LSE)
				e.Out("entropy", a.Entropy)
				dx := e.JunkMat(d, 5, cols, 0)
				e.B.LogSoftmaxGatherBackward(&kernels.LogSoftmaxGatherBackward{LogSoftmaxGather: a, DOut: e.Floats(kernels.F32, 5, 1), DX: dx})
				e.Out("dx", dx.Span)
				in := e.Numbers(a.X.Span)
				var lse, entropy []float64
				for r := range 5 {
					row, sum, h := in[r*a.X.Stride:r*a.X.Stride+cols], 0.0, 0.0
					for _, v := range row {
						sum += math.Exp(v / 0.7)
					}
					for _, v := range row {
						p := math.Exp(v/0.7) / sum
						h -= p * math.Log(p)
					}
					lse, entropy = append(lse, math.Log(sum)), append(entropy, h)
				}
				e.Near("lse", a.LSE, lse, 1e-5, 1e-5)
				e.Near("entropy", a.Entropy, entropy, 1e-4, 1e-4)
			}})
		}
		all = append(all, Case{"Softmax", d.String() + " wild", func(e *Env) {
			x, y := e.WildMat(d, 40, 5, 0), e.JunkMat(d, 40, 5, 0)
			e.B.Softmax(&kernels.Softmax{X: x, Y: y})
			e.Out("y", y.Span)
		}})
	}
	return all
}

func embeddings() []Case {
	var all []Case
	for _, d := range floats {
		for _, cols := range []int{1, 33, 64} {
			all = append(all, Case{"Embedding", fmt.Sprintf("%s %d", d, cols), func(e *Env) {
				index := e.Ints([]int32{3, 0, 3, 6, 1, 3})
				table, y := e.Mat(d, 7, cols, 1, 1), e.JunkMat(d, 6, cols, 2)
				e.B.Embedding(&kernels.Embedding{Table: table, Index: index, Y: y})
				e.Out("y", y.Span)
				grad := e.Mat(kernels.F32, 7, cols, 0, 1)
				e.B.EmbeddingBackward(&kernels.EmbeddingBackward{DY: e.Mat(d, 6, cols, 0, 1), Index: index, DTable: grad})
				e.Out("dtable", grad.Span)
			}})
		}
	}
	return all
}
