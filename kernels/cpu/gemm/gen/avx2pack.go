package main

import (
	"fmt"
	"strings"
)

// Path AVX2: packing of whole groups of 32 columns. Plain Go packs a panel's tails.

// words2 are numbers of 16 bits, each sixteen times; dwords2 of 32 bits, eight times.
var words2 = []struct {
	name string
	bits uint16
}{{"absolute", 0x7FFF}, {"infinite", 0x7F80}, {"normal", 0x0080}, {"quiet", 0x0040}}

var dwords2 = []struct {
	name string
	bits uint32
}{{"odd", 1}, {"half", 0x7FFF}, {"quiet32", 0x400000}, {"exponent", 0x7F800000}, {"sign", 0x80000000}}

func (f *file) tables2() {
	table := func(name, eight string) {
		for i := range 4 {
			fmt.Fprintf(f, "DATA %s<>+%d(SB)/8, $0x%s\n", name, i*8, eight)
		}
		fmt.Fprintf(f, "GLOBL %s<>(SB), RODATA|NOPTR, $32\n\n", name)
	}
	for _, w := range words2 {
		table(w.name, strings.Repeat(fmt.Sprintf("%04x", w.bits), 4))
	}
	for _, d := range dwords2 {
		table(d.name, strings.Repeat(fmt.Sprintf("%08x", d.bits), 2))
	}
	// The words of four k as two dwords: {low: third, high: first}, {fourth, second}.
	for i := range 4 {
		fmt.Fprintf(f, "DATA pairs<>+%d(SB)/8, $0x%s\n", i*8, []string{"0302070601000504", "0b0a0f0e09080d0c"}[i%2])
	}
	f.WriteString("GLOBL pairs<>(SB), RODATA|NOPTR, $32\n\n")
}

// sixteen loads sixteen numbers as bf16 into Y, denormals as zeros and NaNs quiet. It changes 8 and, of fp32, 9 to 11.
func (f *file) sixteen(float bool, disp int, at string, y int) {
	if !float {
		f.op("VMOVDQU %d%s, Y%d", disp, at, y)
		f.op("VPAND absolute<>(SB), Y%d, Y8", y)
		f.op("VPCMPGTW infinite<>(SB), Y8, Y9")
		f.op("VPAND quiet<>(SB), Y9, Y9")
		f.op("VPOR Y9, Y%d, Y%d", y, y)
		f.op("VMOVDQU normal<>(SB), Y9")
		f.op("VPCMPGTW Y8, Y9, Y9")
		f.op("VPAND absolute<>(SB), Y9, Y9")
		f.op("VPANDN Y%d, Y9, Y%d", y, y)
		return
	}
	f.op("VMOVUPS %d%s, Y%d", disp, at, y)
	f.op("VMOVUPS %d%s, Y11", disp+32, at)
	for _, r := range []int{y, 11} {
		f.roundBy(r, [5]string{"odd<>(SB)", "half<>(SB)", "quiet32<>(SB)", "exponent<>(SB)", "sign<>(SB)"})
		f.op("VPSRLD $16, Y%d, Y%d", r, r)
	}
	f.op("VPACKUSDW Y11, Y%d, Y%d", y, y)
	f.op("VPERMQ $0xD8, Y%d, Y%d", y, y)
}

// turn8 writes the 8 x 8 dwords of registers 0 to 7 turned over, as rows of 128 bytes at DI. It changes 8 to 15.
func (f *file) turn8() {
	for i := 0; i < 8; i += 2 {
		f.op("VUNPCKLPS Y%d, Y%d, Y%d", i+1, i, 8+i)
		f.op("VUNPCKHPS Y%d, Y%d, Y%d", i+1, i, 9+i)
	}
	for i := range 4 { // of 8, 10 | 9, 11 | 12, 14 | 13, 15
		a := 8 + i/2*4 + i%2
		f.op("VUNPCKLPD Y%d, Y%d, Y%d", a+2, a, 2*i)
		f.op("VUNPCKHPD Y%d, Y%d, Y%d", a+2, a, 2*i+1)
	}
	for i := range 8 {
		f.op("VPERM2F128 $0x%d, Y%d, Y%d, Y8", []int{20, 31}[i/4], 4+i%4, i%4)
		f.op("VMOVUPS Y8, %d(DI)", i*128)
	}
}

// packLines2 packs eight columns whose numbers lie side by side: steps of 16 k as pairs of bf16, or of 8 k as fp32.
func (f *file) packLines2(name string, paired, float bool) {
	f.fn(name, 32, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, stride, steps int)
		dst gets 8 columns of a panel from lines that lie stride bytes apart.`, name))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ steps+24(FP), CX")
	f.op("LEAQ (R8)(R8*2), R9")
	f.label("step")
	f.op("LEAQ (SI)(R8*4), DX")
	for i := range 8 {
		at := "(" + []string{"SI", "DX"}[i/4] + ")" + []string{"", "(R8*1)", "(R8*2)", "(R9*1)"}[i%4]
		switch {
		case paired:
			f.sixteen(float, 0, at, i)
			f.op("VPSHUFB pairs<>(SB), Y%d, Y%d", i, i)
		case float:
			f.op("VMOVUPS %s, Y%d", at, i)
		default:
			f.op("VPMOVZXWD %s, Y%d", at, i)
			f.op("VPSLLD $16, Y%d, Y%d", i, i)
		}
	}
	f.turn8()
	bytes := map[bool]int{false: 2, true: 4}[float] * map[bool]int{false: 8, true: 16}[paired]
	f.op("ADDQ $%d, SI", bytes)
	f.op("ADDQ $1024, DI")
	f.op("DECQ CX")
	f.op("JNE step")
	f.plainRet()
}

// packAcross2 packs steps of four k, whose 32 columns lie side by side, as pairs.
func (f *file) packAcross2(name string, float bool) {
	f.fn(name, 32, fmt.Sprintf(`func %s(dst, src unsafe.Pointer, stride, steps int)
		dst gets 32 columns of a panel from rows of k that lie stride bytes apart.`, name))
	f.op("MOVQ dst+0(FP), DI")
	f.op("MOVQ src+8(FP), SI")
	f.op("MOVQ stride+16(FP), R8")
	f.op("MOVQ steps+24(FP), CX")
	f.label("step")
	f.op("LEAQ (SI)(R8*2), DX")
	size := map[bool]int{false: 2, true: 4}[float]
	for chain := range 2 {
		for half := range 2 {
			row := []string{"", "(R8*1)"}[chain]
			f.sixteen(float, half*16*size, "(SI)"+row, 0)
			f.sixteen(float, half*16*size, "(DX)"+row, 1)
			f.op("VPUNPCKLWD Y0, Y1, Y2")
			f.op("VPUNPCKHWD Y0, Y1, Y3")
			f.op("VPERM2I128 $0x20, Y3, Y2, Y4")
			f.op("VPERM2I128 $0x31, Y3, Y2, Y5")
			f.op("VMOVDQU Y4, %d(DI)", chain*128+half*64)
			f.op("VMOVDQU Y5, %d(DI)", chain*128+half*64+32)
		}
	}
	f.op("LEAQ (SI)(R8*4), SI")
	f.op("ADDQ $256, DI")
	f.op("DECQ CX")
	f.op("JNE step")
	f.plainRet()
}

func avx2PackFile() *file {
	f := newFile()
	f.tables2()
	for i, of := range []string{"BF16", "F32"} {
		f.packLines2("packLines"+of+"AVX2", false, i == 1)
		f.packLines2("packPairs"+of+"AVX2", true, i == 1)
		f.packAcross2("packAcross"+of+"AVX2", i == 1)
	}
	return f
}
