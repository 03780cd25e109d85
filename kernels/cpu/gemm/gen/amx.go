package main

import "fmt"

// Path AMX. Go's assembler knows no tiles: instructions are bytes here, in VEX form.
// Tiles of the block kernels: T0 to T3 sums, T4 and T5 rows of A, T6 and T7 columns
// of B: the blocking with the fewest loads a product.

// Registers as instructions number them.
const (
	regAX  = 0
	regBX  = 3
	regSI  = 6
	regDI  = 7
	regR8  = 8
	regR9  = 9
	regR10 = 10
	regR15 = 15
)

var tileRegisters = map[int]string{regAX: "AX", regBX: "BX", regSI: "SI", regDI: "DI", regR8: "R8", regR9: "R9", regR10: "R10", regR15: "R15"}

// emit writes an instruction's bytes with its meaning.
func (f *file) emit(code []byte, format string, args ...any) {
	text := ""
	for i, b := range code {
		if i > 0 {
			text += "; "
		}
		text += fmt.Sprintf("BYTE $0x%02X", b)
	}
	f.op("%s // %s", text, fmt.Sprintf(format, args...))
}

// tileMemory is a VEX instruction of map 0F38 on a tile and memory at
// disp(base)(stride*1); pp is the last two bits of its third byte.
func tileMemory(pp, tile, disp, base, stride int) []byte {
	v1 := 0xE2
	if stride >= 8 {
		v1 &^= 0x40
	}
	if base >= 8 {
		v1 &^= 0x20
	}
	code := []byte{0xC4, byte(v1), byte(0x78 | pp), 0x4B}
	sib := byte(stride&7<<3 | base&7)
	switch {
	case disp == 0 && base&7 != 5:
		return append(code, byte(0x04|tile<<3), sib)
	case disp >= -128 && disp < 128:
		return append(code, byte(0x44|tile<<3), sib, byte(disp))
	}
	return append(code, byte(0x84|tile<<3), sib, byte(disp), byte(disp>>8), byte(disp>>16), byte(disp>>24))
}

// tileLoad reads a tile's rows, which are stride apart; passing marks lines that L1
// need not keep.
func (f *file) tileLoad(tile, disp, base, stride int, passing bool) {
	name, pp := "TILELOADD", 3
	if passing {
		name, pp = "TILELOADDT1", 1
	}
	f.emit(tileMemory(pp, tile, disp, base, stride), "%s %d(%s)(%s*1), T%d", name, disp, tileRegisters[base], tileRegisters[stride], tile)
}

func (f *file) tileStore(tile, disp, base, stride int) {
	f.emit(tileMemory(2, tile, disp, base, stride), "TILESTORED T%d, %d(%s)(%s*1)", tile, disp, tileRegisters[base], tileRegisters[stride])
}

func (f *file) tileZero(tile int) {
	f.emit([]byte{0xC4, 0xE2, 0x7B, 0x49, byte(0xC0 | tile<<3)}, "TILEZERO T%d", tile)
}

// tileProduct is d += a·b, one step of the bf16 rule.
func (f *file) tileProduct(b, a, d int) {
	f.emit([]byte{0xC4, 0xE2, byte((15-b)<<3 | 2), 0x5C, byte(0xC0 | d<<3 | a)}, "TDPBF16PS T%d, T%d, T%d", b, a, d)
}

// tileConfigure reads the tiles' sizes from (R15).
func (f *file) tileConfigure() {
	f.emit([]byte{0xC4, 0xC2, 0x78, 0x49, 0x07}, "LDTILECFG 0(R15)")
}

func (f *file) tileRelease() { f.emit([]byte{0xC4, 0xE2, 0x78, 0x49, 0xC0}, "TILERELEASE") }

// tileDot is the block kernel: halves of 16 rows times halves of 16 columns. Tiles are
// set up and released inside, since Go may move a goroutine anywhere else.
func (f *file) tileDot(name string, high, wide int) {
	f.fn(name, 8, fmt.Sprintf(`func %s(a *block)
		C[blocks of up to %d rows][%d] += E + O for each step of 32 k.`, name, high*16, wide*16))
	f.op("MOVQ a+0(FP), AX")
	f.op("MOVQ block_tiles(AX), R15")
	f.tileConfigure()
	f.op("MOVQ block_c(AX), DI")
	f.op("MOVQ block_a(AX), R12")
	f.op("MOVQ block_lda(AX), R8")
	f.op("MOVQ block_blocks(AX), DX")
	f.op("MOVQ block_ahead(AX), R11")
	f.op("MOVQ R8, R13")
	f.op("SHLQ $4, R13 // 16 rows of A")
	f.op("MOVQ $128, R9 // rows of C and of B")
	sums := func(do func(tile, disp int)) {
		for r := range high {
			for c := range wide {
				do(r*2+c, r*2048+c*64)
			}
		}
	}
	f.label("rows")
	f.op("MOVQ R12, SI")
	f.op("LEAQ (R12)(R13*1), R10")
	f.op("MOVQ block_b(AX), BX")
	f.op("MOVQ block_steps(AX), CX")
	f.op("CMPQ block_start(AX), $0")
	f.op("JNE load")
	sums(func(tile, _ int) { f.tileZero(tile) })
	f.op("JMP step")
	f.label("load")
	sums(func(tile, disp int) { f.tileLoad(tile, disp, regDI, regR9, false) })
	f.label("step")
	for c := range wide {
		f.tileLoad(6+c, c*64, regBX, regR9, false)
	}
	for r := range high {
		f.tileLoad(4+r, 0, []int{regSI, regR10}[r], regR8, true)
	}
	sums(func(tile, _ int) { f.tileProduct(6+tile%2, 4+tile/2, tile) })
	for i := range 4 {
		f.op("PREFETCHT1 %d(R11)", i*64)
	}
	f.op("ADDQ $64, SI")
	f.op("ADDQ $64, R10")
	f.op("ADDQ $2048, BX")
	f.op("ADDQ block_aheadStep(AX), R11")
	f.op("DECQ CX")
	f.op("JNE step")
	sums(func(tile, disp int) { f.tileStore(tile, disp, regDI, regR9) })
	f.op("LEAQ (R12)(R13*2), R12")
	f.op("ADDQ $4096, DI")
	f.op("DECQ DX")
	f.op("JNE rows")
	f.tileRelease()
	f.plainRet()
}

// amxFile holds the block kernels, and the packing that leaves k in its order.
func amxFile() *file {
	f := newFile()
	f.natural = true
	f.tileDot("amxTall", 2, 2)
	f.tileDot("amxShort", 1, 2)
	f.tileDot("amxTallNarrow", 2, 1)
	f.tileDot("amxShortNarrow", 1, 1)
	f.tables()
	f.pairRows(false)
	f.pairRows(true)
	f.weave(false)
	f.weave(true)
	f.unweave()
	return f
}
