package kerneltest

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

func reductions() []Case {
	var all []Case
	for _, d := range floats {
		for _, n := range Sizes {
			all = append(all, Case{"Reduce", fmt.Sprintf("%s 3x%d", d, n), func(e *Env) {
				x, y := e.Mat(d, 3, n, 1, 1), e.Mat(d, 3, n, 0, 1)
				for op := kernels.ReduceSum; op <= kernels.ReduceMax; op++ {
					out := e.Junk(kernels.F64, 3)
					e.B.Reduce(&kernels.Reduce{Op: op, X: x, Y: y, Out: out})
					e.Out(fmt.Sprint("out ", op), out)
				}
			}}, Case{"SumRows", fmt.Sprintf("%s 9x%d", d, n), func(e *Env) {
				x, out, one := e.Mat(d, 9, n, 1, 1), e.Floats(kernels.F32, n, 1), e.Junk(kernels.F32, n)
				e.B.SumRows(&kernels.SumRows{X: x, Segments: []int{4, 0, 5}, Out: out, Accumulate: true})
				e.B.SumRows(&kernels.SumRows{X: x, Out: one})
				e.Out("added", out)
				e.Out("written", one)
			}})
		}
	}
	return all
}

func copies() []Case {
	var all []Case
	types := []kernels.DType{kernels.F32, kernels.BF16, kernels.F16}
	for _, from := range types {
		for _, to := range types {
			all = append(all, Case{"Copy", fmt.Sprintf("%s to %s", from, to), func(e *Env) {
				src := e.Wild(kernels.F32, 2*3*4*5)
				if from != kernels.F32 {
					narrow := e.Junk(from, src.Len)
					e.B.Copy(&kernels.Copy{Src: src, Dst: narrow, Shape: [5]int{1, 1, 1, 1, src.Len}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}})
					src = narrow
				}
				dst := e.Junk(to, src.Len)
				// [2,3,4,5] to [4,2,5,3]
				e.B.Copy(&kernels.Copy{Src: src, Dst: dst, Shape: [5]int{1, 2, 3, 4, 5}, SrcStride: [5]int{0, 60, 20, 5, 1}, DstStride: [5]int{0, 15, 1, 30, 3}})
				e.Out("dst", dst)
			}})
		}
	}
	for _, d := range floats {
		for _, s := range [][2]int{{1, 1}, {7, 33}, {64, 64}, {65, 130}} {
			all = append(all, Case{"Copy", fmt.Sprintf("transpose %s %v", d, s), func(e *Env) {
				src, dst, sum := e.Floats(d, s[0]*s[1], 1), e.Junk(d, s[0]*s[1]), e.Floats(d, s[0]*s[1], 1)
				c := kernels.Copy{Src: src, Dst: dst, Shape: [5]int{1, 1, 1, s[0], s[1]}, SrcStride: [5]int{3: s[1], 4: 1}, DstStride: [5]int{3: 1, 4: s[0]}}
				e.B.Copy(&c)
				e.Out("dst", dst)
				c.Dst, c.Accumulate = sum, true
				e.B.Copy(&c)
				e.Out("added", sum)
			}})
		}
	}
	all = append(all, Case{"Copy", "empty", func(e *Env) {
		e.B.Copy(&kernels.Copy{Src: e.Floats(kernels.F32, 4, 1), Dst: e.Zeros(kernels.F32, 4), Shape: [5]int{1, 1, 1, 4, 0}})
	}})
	return all
}

// Sum is how gradients of several devices are added (kernels/exchange) as it is defined,
// of one span: parts[r] is rank r's.
func Sum(parts [][]float32) []float32 {
	sum := make([]float32, len(parts[0]))
	for i := range sum {
		sum[i] = ref.Flush(parts[0][i])
		for _, part := range parts[1:] {
			sum[i] = ref.Flush(sum[i] + ref.Flush(part[i]))
		}
	}
	return sum
}
