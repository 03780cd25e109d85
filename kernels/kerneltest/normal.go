package kerneltest

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// normals are cases of Normal: every length, starts within and across blocks, and
// more than one task's worth.
func normals() []Case {
	var all []Case
	add := func(d kernels.DType, n int, start uint64) {
		all = append(all, Case{"Normal", fmt.Sprintf("%s/%d from %d", d, n, start), func(e *Env) {
			y := e.Junk(d, n)
			e.B.Normal(&kernels.Normal{Key: 7, Stream: 1<<40 + 3, Start: start, Y: y})
			e.Out("y", y)
		}})
	}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for i, n := range Sizes {
			add(d, n, uint64(i))
		}
		add(d, 1024, 4<<32-500)
		add(d, 1<<16+129, 6)
	}
	return all
}
