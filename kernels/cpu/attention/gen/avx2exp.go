package main

import (
	"fmt"
	"math"
)

// What the passes of path AVX2 are made of: constants, powers of two, roundings, and rows of a paired panel.

// Numbers of path AVX2 by name, each eight times.
var numbers2 = []struct {
	name string
	bits uint32
}{
	{"infinite", 0xFF800000}, {"least", math.Float32bits(-126)}, {"one", math.Float32bits(1)}, {"bias", 127},
	{"odd", 1}, {"half", 0x7FFF}, {"quiet", 0x400000}, {"upper", 0xFFFF0000},
}

// tables2 writes the numbers and both polynomials.
func (f *file) tables2() {
	eight := func(name string, bits ...uint32) {
		for i, b := range bits {
			for j := range 4 {
				fmt.Fprintf(f, "DATA %s<>+%d(SB)/8, $0x%08x%08x\n", name, i*32+j*8, b, b)
			}
		}
		fmt.Fprintf(f, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n\n", name, 32*len(bits))
	}
	for _, n := range numbers2 {
		eight(n.name, n.bits)
	}
	for _, full := range []bool{true, false} {
		var bits []uint32
		for _, c := range coefficients(full) {
			bits = append(bits, math.Float32bits(c))
		}
		eight(polynomial2(full), bits...)
	}
}

func polynomial2(full bool) string {
	if full {
		return "exp2Full"
	}
	return "exp2Short"
}

// exp2AVX makes registers 0 to n-1 their exp2. It changes 4 to 11.
func (f *file) exp2AVX(full bool, n int) {
	mode, all := 9, coefficients(full) // floor
	if full {
		mode = 8 // to nearest
	}
	for i := range n {
		f.op("VROUNDPS $%d, Y%d, Y%d", mode, i, 4+i)
		f.op("VSUBPS Y%d, Y%d, Y%d", 4+i, i, 4+i)
		f.op("VMOVUPS %s<>(SB), Y%d", polynomial2(full), 8+i)
	}
	for c := 1; c < len(all); c++ {
		for i := range n {
			f.op("VFMADD213PS %s<>+%d(SB), Y%d, Y%d", polynomial2(full), c*32, 4+i, 8+i)
		}
	}
	for i := range n { // times 2^n by n's bits; 0 below -126
		f.op("VROUNDPS $%d, Y%d, Y%d", mode, i, 4+i)
		f.op("VCVTPS2DQ Y%d, Y%d", 4+i, 4+i)
		f.op("VPADDD bias<>(SB), Y%d, Y%d", 4+i, 4+i)
		f.op("VPSLLD $23, Y%d, Y%d", 4+i, 4+i)
		f.op("VMULPS Y%d, Y%d, Y%d", 4+i, 8+i, 8+i)
		f.op("VCMPPS $5, least<>(SB), Y%d, Y%d // not below", i, i)
		f.op("VANDPS Y%d, Y%d, Y%d", 8+i, i, i)
	}
}

// round2 makes bf16 of fp32 that is no denormal, leaving the low half undefined. It changes 4 and 5.
func (f *file) round2(y int) {
	const tmp, none = 4, 5
	f.op("VPSRLD $16, Y%d, Y%d", y, tmp)
	f.op("VPAND odd<>(SB), Y%d, Y%d", tmp, tmp)
	f.op("VPADDD half<>(SB), Y%d, Y%d", tmp, tmp)
	f.op("VPADDD Y%d, Y%d, Y%d", tmp, y, tmp)
	f.op("VCMPPS $3, Y%d, Y%d, Y%d", y, y, none)
	f.op("VORPS quiet<>(SB), Y%d, Y%d", y, y)
	f.op("VBLENDVPS Y%d, Y%d, Y%d, Y%d", none, y, tmp, y)
}

// panel2 writes four rounded rows, those from rows on zeros, as two rows of a paired panel.
func (f *file) panel2(full bool, rows int) {
	if full {
		return
	}
	for i := range 2 {
		hi, lo := i, i+2
		if hi >= rows {
			f.op("VXORPS Y%d, Y%d, Y%d", hi, hi, hi)
		} else {
			f.op("VANDPS upper<>(SB), Y%d, Y%d", hi, hi)
		}
		if lo < rows {
			f.op("VPSRLD $16, Y%d, Y%d", lo, lo)
			f.op("VPOR Y%d, Y%d, Y%d", lo, hi, hi)
		}
		f.op("VMOVUPS Y%d, %d(DI)", hi, i*128)
	}
}
