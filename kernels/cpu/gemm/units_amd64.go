//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// unitsOf lists the units of a path.
func unitsOf(path isa.Path) map[kernels.Math]unit {
	switch path {
	case isa.AVX2:
		return map[kernels.Math]unit{kernels.MathF32: f32AVX2{}, kernels.MathBF16: wideAVX2{}}
	case isa.AVX512:
		return map[kernels.Math]unit{kernels.MathF32: f32Unit{passes512}, kernels.MathBF16: newWideUnit()}
	case isa.BF16:
		return map[kernels.Math]unit{kernels.MathF32: f32Unit{passesBF16}, kernels.MathBF16: newBF16Unit()}
	case isa.AMX:
		return map[kernels.Math]unit{kernels.MathF32: f32Unit{passesBF16}, kernels.MathBF16: newAMXUnit()}
	}
	return nil
}

// inPlace says whether a block kernel can read an operand's lines as they are: fp32, at a distance that does not put
// all of a block's lines into one set of L1.
func (o operand) inPlace() bool {
	off := o.stride % 4096
	return !o.across && o.dtype == kernels.F32 && min(off, 4096-off) >= 64
}

// lentBy is the unit of Blocks: attention writes weights into panels itself, with k
// paired, so on path AMX it borrows the unit of path BF16, whose bits are the same.
func lentBy(path isa.Path, m kernels.Math, u unit) unit {
	if path == isa.AMX && m == kernels.MathBF16 {
		return newBF16Unit()
	}
	return u
}

func turnOf(path isa.Path) func(dst, src unsafe.Pointer) {
	if path < isa.AVX512 {
		return turnGo
	}
	return func(dst, src unsafe.Pointer) {
		// Tiles of 16 x 16: those below each other come to lie beside each other.
		for h := range 2 {
			transpose16(unsafe.Add(dst, h*64), unsafe.Add(src, h*16*128), 128, 128, 16*128, 64, 2)
		}
	}
}
