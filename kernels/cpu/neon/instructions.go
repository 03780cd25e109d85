package neon

import "fmt"

// word writes an encoded instruction with its mnemonic.
func (w *Writer) word(bits uint32, format string, args ...any) {
	fmt.Fprintf(w, "\tWORD $0x%08x // %s\n", bits, fmt.Sprintf(format, args...))
}

// three is an instruction with a destination and two sources, two one with one source.
func (w *Writer) three(name, shape string, op uint32, d, n, m int) {
	w.word(op|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s V%d.%s, V%d.%s, V%d.%s", name, d, shape, n, shape, m, shape)
}

func (w *Writer) two(name, shape string, op uint32, d, n int) {
	w.word(op|uint32(n)<<5|uint32(d), "%s V%d.%s, V%d.%s", name, d, shape, n, shape)
}

// Arithmetic on four fp32.

func (w *Writer) FADD(d, n, m int) { w.three("FADD", "4S", 0x4E20D400, d, n, m) }
func (w *Writer) FSUB(d, n, m int) { w.three("FSUB", "4S", 0x4EA0D400, d, n, m) }
func (w *Writer) FMUL(d, n, m int) { w.three("FMUL", "4S", 0x6E20DC00, d, n, m) }
func (w *Writer) FDIV(d, n, m int) { w.three("FDIV", "4S", 0x6E20FC00, d, n, m) }

// FMLA is d + n·m, FMLS d - n·m, each with one rounding.
func (w *Writer) FMLA(d, n, m int) { w.three("FMLA", "4S", 0x4E20CC00, d, n, m) }
func (w *Writer) FMLS(d, n, m int) { w.three("FMLS", "4S", 0x4EA0CC00, d, n, m) }

func (w *Writer) FCMEQ(d, n, m int) { w.three("FCMEQ", "4S", 0x4E20E400, d, n, m) }
func (w *Writer) FCMGE(d, n, m int) { w.three("FCMGE", "4S", 0x6E20E400, d, n, m) }
func (w *Writer) FCMGT(d, n, m int) { w.three("FCMGT", "4S", 0x6EA0E400, d, n, m) }

func (w *Writer) FCMGT0(d, n int) { w.two("FCMGT #0", "4S", 0x4EA0C800, d, n) }

// FMAXNM keeps the number where the other is a NaN.
func (w *Writer) FMAXNM(d, n, m int) { w.three("FMAXNM", "4S", 0x4E20C400, d, n, m) }

func (w *Writer) FSQRT(d, n int)  { w.two("FSQRT", "4S", 0x6EA1F800, d, n) }
func (w *Writer) FNEG(d, n int)   { w.two("FNEG", "4S", 0x6EA0F800, d, n) }
func (w *Writer) FRINTN(d, n int) { w.two("FRINTN", "4S", 0x4E218800, d, n) }
func (w *Writer) FRINTM(d, n int) { w.two("FRINTM", "4S", 0x4E219800, d, n) }
func (w *Writer) FCVTNS(d, n int) { w.two("FCVTNS", "4S", 0x4E21A800, d, n) }
func (w *Writer) FCVTZS(d, n int) { w.two("FCVTZS", "4S", 0x4EA1B800, d, n) }
func (w *Writer) SCVTF(d, n int)  { w.two("SCVTF", "4S", 0x4E21D800, d, n) }
func (w *Writer) UCVTF(d, n int)  { w.two("UCVTF", "4S", 0x6E21D800, d, n) }

// lane is a product with one lane of m.
func (w *Writer) lane(name string, op uint32, d, n, m, lane int) {
	op |= uint32(lane&1)<<21 | uint32(lane>>1)<<11
	w.word(op|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s V%d.4S, V%d.4S, V%d.S[%d]", name, d, n, m, lane)
}

func (w *Writer) FMLAlane(d, n, m, lane int) { w.lane("FMLA", 0x4F801000, d, n, m, lane) }
func (w *Writer) FMULlane(d, n, m, lane int) { w.lane("FMUL", 0x4F809000, d, n, m, lane) }

// Arithmetic on two float64.

func (w *Writer) FADD2(d, n, m int) { w.three("FADD", "2D", 0x4E60D400, d, n, m) }
func (w *Writer) FSUB2(d, n, m int) { w.three("FSUB", "2D", 0x4EE0D400, d, n, m) }
func (w *Writer) FMUL2(d, n, m int) { w.three("FMUL", "2D", 0x6E60DC00, d, n, m) }
func (w *Writer) FDIV2(d, n, m int) { w.three("FDIV", "2D", 0x6E60FC00, d, n, m) }

// FCVTL widens the lower two fp32; FCVTN rounds to them.
func (w *Writer) FCVTL(d, n int) { w.two("FCVTL", "2D,2S", 0x0E617800, d, n) }
func (w *Writer) FCVTN(d, n int) { w.two("FCVTN", "2S,2D", 0x0E616800, d, n) }

// Integers and bits.

func (w *Writer) ADD(d, n, m int)  { w.three("ADD", "4S", 0x4EA08400, d, n, m) }
func (w *Writer) SUB(d, n, m int)  { w.three("SUB", "4S", 0x6EA08400, d, n, m) }
func (w *Writer) MUL(d, n, m int)  { w.three("MUL", "4S", 0x4EA09C00, d, n, m) }
func (w *Writer) CMEQ(d, n, m int) { w.three("CMEQ", "4S", 0x6EA08C00, d, n, m) }
func (w *Writer) AND(d, n, m int)  { w.three("AND", "16B", 0x4E201C00, d, n, m) }
func (w *Writer) BIC(d, n, m int)  { w.three("BIC", "16B", 0x4E601C00, d, n, m) }
func (w *Writer) ORR(d, n, m int)  { w.three("ORR", "16B", 0x4EA01C00, d, n, m) }
func (w *Writer) ORN(d, n, m int)  { w.three("ORN", "16B", 0x4EE01C00, d, n, m) }
func (w *Writer) EOR(d, n, m int)  { w.three("EOR", "16B", 0x6E201C00, d, n, m) }

// BSL takes n where d has bits and m where it has none; BIT takes n into d where m has
// bits, BIF where it has none.
func (w *Writer) BSL(d, n, m int) { w.three("BSL", "16B", 0x6E601C00, d, n, m) }
func (w *Writer) BIT(d, n, m int) { w.three("BIT", "16B", 0x6EA01C00, d, n, m) }
func (w *Writer) BIF(d, n, m int) { w.three("BIF", "16B", 0x6EE01C00, d, n, m) }

// UMULL and UMULL2 are the 64-bit products of the lower and the upper two words.
func (w *Writer) UMULL(d, n, m int)  { w.three("UMULL", "2D,2S", 0x2EA0C000, d, n, m) }
func (w *Writer) UMULL2(d, n, m int) { w.three("UMULL2", "2D,4S", 0x6EA0C000, d, n, m) }

// UMAXV is the largest of four words, in lane 0.
func (w *Writer) UMAXV(d, n int) {
	w.word(0x6EB0A800|uint32(n)<<5|uint32(d), "UMAXV S%d, V%d.4S", d, n)
}

func (w *Writer) CMEQ0(d, n int) { w.two("CMEQ #0", "4S", 0x4EA09800, d, n) }
func (w *Writer) CMLT0(d, n int) { w.two("CMLT #0", "4S", 0x4EA0A800, d, n) }

func (w *Writer) MOV(d, n int) {
	if d != n {
		w.word(0x4EA01C00|uint32(n)<<16|uint32(n)<<5|uint32(d), "MOV V%d.16B, V%d.16B", d, n)
	}
}

func (w *Writer) ZERO(d int) { w.word(0x6F00E400|uint32(d), "MOVI V%d.2D, #0", d) }

func (w *Writer) shift(name string, op uint32, d, n, by int, field uint32) {
	w.word(op|field<<16|uint32(n)<<5|uint32(d), "%s V%d.4S, V%d.4S, #%d", name, d, n, by)
}

func (w *Writer) SHL(d, n, by int)  { w.shift("SHL", 0x4F005400, d, n, by, uint32(32+by)) }
func (w *Writer) USHR(d, n, by int) { w.shift("USHR", 0x6F000400, d, n, by, uint32(64-by)) }
func (w *Writer) SSHR(d, n, by int) { w.shift("SSHR", 0x4F000400, d, n, by, uint32(64-by)) }

// SHLL and SHLL2 widen the lower and the upper four bf16 to fp32.
func (w *Writer) SHLL(d, n int)  { w.two("SHLL #16", "4S,4H", 0x2E613800, d, n) }
func (w *Writer) SHLL2(d, n int) { w.two("SHLL2 #16", "4S,8H", 0x6E613800, d, n) }

// SHRN and SHRN2 keep the upper halves of four words, in the lower or upper half of d.
func (w *Writer) SHRN(d, n int)  { w.two("SHRN #16", "4H,4S", 0x0F108400, d, n) }
func (w *Writer) SHRN2(d, n int) { w.two("SHRN2 #16", "8H,4S", 0x4F108400, d, n) }

// Widening of bytes and of signed 16-bit numbers.
func (w *Writer) UXTL8(d, n int)   { w.two("UXTL", "8H,8B", 0x2F08A400, d, n) }
func (w *Writer) UXTL16(d, n int)  { w.two("UXTL", "4S,4H", 0x2F10A400, d, n) }
func (w *Writer) UXTL216(d, n int) { w.two("UXTL2", "4S,8H", 0x6F10A400, d, n) }
func (w *Writer) SXTL16(d, n int)  { w.two("SXTL", "4S,4H", 0x0F10A400, d, n) }
func (w *Writer) SXTL216(d, n int) { w.two("SXTL2", "4S,8H", 0x4F10A400, d, n) }

// Order of lanes.

func (w *Writer) UZP1(d, n, m int) { w.three("UZP1", "4S", 0x4E801800, d, n, m) }
func (w *Writer) UZP2(d, n, m int) { w.three("UZP2", "4S", 0x4E805800, d, n, m) }
func (w *Writer) ZIP1(d, n, m int) { w.three("ZIP1", "4S", 0x4E803800, d, n, m) }
func (w *Writer) ZIP2(d, n, m int) { w.three("ZIP2", "4S", 0x4E807800, d, n, m) }

// EXT takes 16 bytes of n and then m from byte at on.
func (w *Writer) EXT(d, n, m, at int) {
	w.word(0x6E000000|uint32(m)<<16|uint32(at)<<11|uint32(n)<<5|uint32(d),
		"EXT V%d.16B, V%d.16B, V%d.16B, #%d", d, n, m, at)
}

func (w *Writer) DUP(d, n, lane int) {
	w.word(0x4E040400|uint32(lane)<<19|uint32(n)<<5|uint32(d), "DUP V%d.4S, V%d.S[%d]", d, n, lane)
}

// Memory at a general register, in pieces that Go's assembler has no words for.

func (w *Writer) LD1R(v, r int) {
	w.word(0x4D40C800|uint32(r)<<5|uint32(v), "LD1R {V%d.4S}, [X%d]", v, r)
}

// LoadThird and StoreThird move lane 2, as a word or as 16 bits.
func (w *Writer) LoadThird(v, r, size int) { w.third("LD1", 0x0D400000, v, r, size) }

func (w *Writer) StoreThird(v, r, size int) { w.third("ST1", 0x0D000000, v, r, size) }

func (w *Writer) third(name string, op uint32, v, r, size int) {
	if size == 4 {
		w.word(op|0x40008000|uint32(r)<<5|uint32(v), "%s {V%d.S}[2], [X%d]", name, v, r)
		return
	}
	w.word(op|0x00005000|uint32(r)<<5|uint32(v), "%s {V%d.H}[2], [X%d]", name, v, r)
}
