package rows

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Depthwise is ref.Depthwise: lines of pixels, whose sums stay in registers over all places.
func (e *Engine) Depthwise(a *kernels.Depthwise, lo, hi int) {
	if e.set == nil || lo == hi {
		ref.Depthwise(a, lo, hi)
		return
	}
	w := e.begin()
	defer w.end(e)
	oh, ow := a.OutSize()
	offsets := make([]int64, 0, a.KH*a.KW)
	for dy := range a.KH {
		for dx := range a.KW {
			offsets = append(offsets, int64(4*a.C*(dy*a.DilationY*a.W+dx*a.DilationX)))
		}
	}
	f := w.kernel(taps, kernels.F32, kernels.F32)
	w.n, w.places = a.C, len(offsets)
	w.stride = [3]int{4 * a.C * a.StrideX, 4 * a.C, 4 * a.C}
	w.src[1], w.src[3] = from(a.Weight, 0).p, unsafe.Pointer(&offsets[0])
	if !a.Bias.Empty() {
		w.src[2] = from(a.Bias, 0).p
	}
	most := max(8, longestTaps/(a.C*len(offsets))) // pixels of a call
	for line := lo; line < hi; line++ {
		x := (line/oh*a.H + line%oh*a.StrideY) * a.W
		for at := 0; at < ow; at += most {
			w.job.rows, w.flushed = min(most, ow-at), 0
			w.src[0] = from(a.X, (x+at*a.StrideX)*a.C).p
			w.dst = from(a.Y, (line*ow+at)*a.C).p
			if f(&w.job); w.flushed != 0 { // ref may have rounded up what NEON flushed
				ref.Depthwise(a, line, line+1)
				break
			}
		}
	}
}

// longestTaps is the products of one call: some tens of microseconds, in which the collector cannot stop the goroutine.
const longestTaps = 1 << 18
