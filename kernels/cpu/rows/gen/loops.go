package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/cpu/neon"
)

// A kernel is a loop over blocks of 64 elements and a masked tail. Its argument is a job. An operand, a letter of src
// and dst, is memory: "x" of the variant's type; "f" of fp32; "c" of fp32, a number for each column; "m" of fp32, a
// second result; "p" and "w" are asked for only: the next call's inputs, and its outputs.
type kernel struct {
	name     string
	src, dst string   // a letter an operand
	variants []string // types in and out: "ff", "bb", "bf", "fb"
	sum      bool     // 64 lanes are added: their total goes to the job
	max      bool     // the same for a maximum
	columns  bool     // the loop runs down the rows of 64 columns, lanes are columns
	moments  bool     // the same, for two sums about a row
	rows     bool     // the loop runs over every row in order
	past     bool     // the result goes past the caches: rows begin at multiples of 64 bytes
	abreast  int      // the body's registers, if its vectors go side by side on AVX-512
	taps     bool     // a line of pixels, each a sum over places of a depthwise convolution (taps.go)
	cast     bool     // AVX2 has the variants with bf16, over whole blocks
	body     func(v *vector)
}

// Registers: 0 to 6 are the body's. 16 to 19 hold the lanes of sums, on AVX2 7 to 14;
// 15 is AVX2's mask; from 31 down AVX-512 holds the job's numbers.
const maskY = 15

// block is where in a kernel the generator is.
type block struct {
	k      kernel
	types  string
	j      int      // the vector within the block
	names  []string // registers' contents over the loop
	stored int      // lines before the store
	masked bool
}

var srcRegs = []string{"SI", "R8", "R9", "R10", "R11", "R12", "R13"}

const dstReg, maskReg, aheadReg = "DI", "R14", "R15"

func (v *vector) name() string { return v.k.name + strings.ToUpper(v.types) + v.suffix }

func (v *vector) kernel(k kernel, types string) {
	v.block = block{k: k, types: types}
	if v.neon {
		v.kernelNEON()
		return
	}
	fmt.Fprintf(v, "// func %s(a *job)\nTEXT ·%s(SB), NOSPLIT, $16-8\n", v.name(), v.name())
	v.op("PCALIGN", "$64") // a loop's speed depends on where it lies: 12 % of a layer norm
	v.op("STMXCSR", "saved-8(SP)")
	v.op("MOVL", "$0x9FC0", "flushing-16(SP)")
	v.op("LDMXCSR", "flushing-16(SP)")
	v.op("MOVQ", "a+0(FP)", "BX")
	for i := range k.src {
		v.op("MOVQ", fmt.Sprintf("job_src+%d(BX)", 8*i), srcRegs[i])
	}
	v.op("MOVQ", "job_dst(BX)", dstReg)
	if k.taps {
		v.tapsOfLine()
		v.end()
		return
	}
	v.rehearse()
	if k.sum && !k.columns || k.max {
		for j := range 64 / v.lanes() {
			if k.max {
				v.op("VMOVUPS", v.u32(0xff800000), v.lane(j))
			} else {
				v.logic("VPXOR", v.lane(j), v.lane(j), v.lane(j))
			}
		}
	}
	if k.rows {
		v.rowsInOrder()
	} else {
		v.across()
	}
	if k.past {
		v.op("SFENCE")
	}
	v.total()
	v.end()
}

// end restores the arithmetic's mode and returns.
func (v *vector) end() {
	v.op("LDMXCSR", "saved-8(SP)")
	v.op("VZEROUPPER")
	v.op("RET")
	v.WriteByte('\n')
}

// across is the loop over a row's blocks, and its tail.
func (v *vector) across() {
	v.op("MOVQ", "job_n(BX)", "DX")
	v.op("XORQ", "CX", "CX")
	// AX, the last block's start, is the row counter of loops down columns.
	limit := func(jump, to string) {
		if v.k.columns {
			v.op("LEAQ", "64(CX)", "AX")
			v.op("CMPQ", "AX", "DX")
		} else {
			v.op("CMPQ", "CX", "AX")
		}
		v.op(jump, to)
	}
	v.op("LEAQ", "-64(DX)", "AX")
	limit("JGT", "tail")
	v.label("loop")
	v.whole("rows")
	v.op("ADDQ", "$64", "CX")
	limit("JLE", "loop")
	v.label("tail")
	v.op("SUBQ", "CX", "DX")
	v.op("JEQ", "done")
	v.masks()
	v.masked = true
	v.whole("tailRows")
	v.masked = false
	v.label("done")
}

// whole writes one block of 64.
func (v *vector) whole(label string) {
	switch {
	case v.k.moments:
		v.moments(label)
		return
	case v.k.columns:
		v.column(label)
		return
	}
	v.ask()
	if v.together() {
		v.turns()
		return
	}
	for v.j = 0; v.j < 64/v.lanes(); v.j++ {
		v.mask()
		v.k.body(v)
	}
}

func (v *vector) lane(j int) int {
	if v.wide() || v.neon {
		return 16 + j
	}
	return 7 + j
}

// masks prepares the tail of DX elements.
func (v *vector) masks() {
	if !v.wide() {
		v.op("LEAQ", "·masks<>+256(SB)", maskReg)
		v.op("SHLQ", "$2", "DX")
		v.op("SUBQ", "DX", maskReg)
		return
	}
	v.op("MOVQ", "$-1", "AX")
	v.op("BZHIQ", "DX", "AX", "AX")
	for k := 1; k <= 4; k++ {
		v.op("KMOVW", "AX", fmt.Sprintf("K%d", k))
		v.op("SHRQ", "$16", "AX")
	}
}

func (v *vector) mask() {
	if v.masked && !v.wide() {
		v.op("VMOVDQU", fmt.Sprintf("%d(%s)", v.j*32, maskReg), maskY)
	}
}

func (v *vector) k1() string { return fmt.Sprintf("K%d", v.j+1) }

// at is the memory of the current vector of an operand.
func (v *vector) at(reg string, size int) string {
	return fmt.Sprintf("%d(%s)(CX*%d)", v.j*v.lanes()*size, reg, size)
}

// move is a load or a store of fp32.
func (v *vector) move(from, to any, load bool) {
	switch {
	case !v.masked:
		v.op("VMOVUPS", from, to)
	case !v.wide():
		v.op("VMASKMOVPS", from, maskY, to)
	case load:
		v.op("VMOVUPS.Z", from, v.k1(), to)
	default:
		v.op("VMOVUPS", from, v.k1(), to)
	}
}

// load loads operand i.
func (v *vector) load(i, to int) {
	if v.neon {
		v.loadNEON(i, to)
		return
	}
	if v.k.src[i] == 'f' || v.k.src[i] == 'c' || v.types[0] == 'f' {
		v.move(v.at(srcRegs[i], 4), to, true)
		return
	}
	if v.masked && v.wide() {
		v.op("VPMOVZXWD.Z", v.at(srcRegs[i], 2), v.k1(), to)
	} else {
		v.op("VPMOVZXWD", v.at(srcRegs[i], 2), to)
	}
	v.op("VPSLLD", "$16", to, to)
}

// store puts x into the destination. tmp is lost, and x.
func (v *vector) store(x, tmp int) {
	if v.neon {
		v.storeNEON(x, tmp)
		return
	}
	if v.together() {
		v.stored = bytes.Count(v.Bytes(), []byte("\n"))
	}
	if v.k.dst == "f" || v.types[1] == 'f' {
		if v.k.past && !v.masked {
			v.op("VMOVNTPS", x, v.at(dstReg, 4))
			return
		}
		v.move(x, v.at(dstReg, 4), false)
		return
	}
	v.toBF16(x, tmp)
	at := v.at(dstReg, 2)
	switch {
	case !v.wide():
		v.op("VMOVDQU", fmt.Sprintf("X%d", x), at)
	case v.masked:
		v.op("VMOVDQU16", fmt.Sprintf("Y%d", v.own(x)), v.k1(), at)
	case v.k.past:
		v.op("VMOVNTDQ", fmt.Sprintf("Y%d", v.own(x)), at)
	case v.own(x) < 16:
		v.op("VMOVDQU", fmt.Sprintf("Y%d", v.own(x)), at)
	default:
		v.op("VMOVDQU32", fmt.Sprintf("Y%d", v.own(x)), at)
	}
}

// keep stores fp32, whatever the variant.
func (v *vector) keep(x int) {
	if v.neon {
		v.move4(x, dstR, false)
		return
	}
	v.move(x, v.at(dstReg, 4), false)
}

// scalar is number i of the job in every lane.
func (v *vector) scalar(i, to int) {
	name := fmt.Sprintf("job_s+%d(BX)", 4*i)
	if v.neon {
		from := v.in(name)
		v.arm(func(w *neon.Writer) { w.MOV(to, from) })
		return
	}
	if v.wide() {
		if r, ok := v.held(name); ok {
			v.op("VMOVAPS", fmt.Sprintf("Z%d", r), to)
			return
		}
	}
	v.op("VBROADCASTSS", name, to)
}

// merge runs inst into the lanes: elements beyond the tail leave theirs alone. tmp is
// lost on AVX2.
func (v *vector) merge(inst string, a, b any, tmp int) {
	to := v.lane(v.j)
	switch {
	case !v.masked:
		v.op(inst, a, b, to)
	case v.wide():
		v.op(inst, a, b, v.k1(), to)
	default:
		v.op("VMOVAPS", to, tmp)
		v.op(inst, a, b, tmp)
		v.op("VBLENDVPS", maskY, tmp, to, to)
	}
}

// add, fma and most put x, or x·y, into the lanes.
func (v *vector) add(x, tmp int) {
	if v.neon {
		v.mergeNEON(func(w *neon.Writer, lane int) { w.FADD(lane, lane, x) })
		return
	}
	if v.masked && !v.wide() {
		v.op("VADDPS", x, v.lane(v.j), tmp)
		v.op("VBLENDVPS", maskY, tmp, v.lane(v.j), v.lane(v.j))
		return
	}
	v.merge("VADDPS", x, v.lane(v.j), tmp)
}

func (v *vector) fma(x, y, tmp int) {
	if v.neon {
		v.mergeNEON(func(w *neon.Writer, lane int) { w.FMLA(lane, x, y) })
		return
	}
	v.merge("VFMADD231PS", x, y, tmp)
}

// most keeps the lane where x is a NaN.
func (v *vector) most(x, tmp int) {
	if v.neon {
		v.mergeNEON(func(w *neon.Writer, lane int) {
			w.FCMGT(sumV, x, lane)
			w.BIT(lane, x, sumV)
		})
		return
	}
	if v.masked && !v.wide() {
		v.op("VMAXPS", v.lane(v.j), x, tmp)
		v.op("VBLENDVPS", maskY, tmp, v.lane(v.j), v.lane(v.j))
		return
	}
	v.merge("VMAXPS", v.lane(v.j), x, tmp)
}

// total adds the lanes: (0+1)+(2+3) of sixteen each, then halves.
func (v *vector) total() {
	if v.k.columns || !v.k.sum && !v.k.max {
		return
	}
	v.j = 0
	inst := "VADDPS"
	if v.k.max {
		inst = "VMAXPS"
	}
	add := func(b, a int) { v.op(inst, b, a, a) }
	l := v.lane
	if v.wide() {
		add(l(1), l(0))
		add(l(3), l(2))
		add(l(2), l(0))
		v.op("VEXTRACTF64X4", "$1", l(0), "Y1")
		v.op("VMOVAPS", l(0), 0)
	} else {
		for h := range 2 {
			add(l(2+h), l(h))
			add(l(6+h), l(4+h))
			add(l(4+h), l(h))
		}
		v.op("VMOVAPS", l(0), 0)
		v.op("VMOVAPS", l(1), 1)
	}
	v.op(inst, "Y1", "Y0", "Y0")
	v.op("VEXTRACTF128", "$1", "Y0", "X1")
	v.op(inst, "X1", "X0", "X0")
	v.op("VPSHUFD", "$0x0E", "X0", "X1")
	v.op(inst, "X1", "X0", "X0")
	v.op("VPSHUFD", "$0x01", "X0", "X1")
	v.op(inst, "X1", "X0", "X0")
	v.op("VMOVSS", "X0", "job_total(BX)")
}

// Loops over rows with numbers for each column: sums down the rows of 64 columns, whose
// lanes are columns, and element-wise kernels that go row by row. (These too went down
// 64 columns once, with the columns' numbers in registers: memory that is written in
// pieces of a row took twice as long as rows in order, with or without prefetching.)

// column runs the body down the rows of a block. Lanes are taken from dst and put back.
func (v *vector) column(label string) {
	lanes := func(f func()) {
		for v.j = 0; v.j < 64/v.lanes(); v.j++ {
			v.mask()
			f()
		}
	}
	lanes(func() { v.move(v.at(dstReg, 4), v.lane(v.j), true) })
	v.firstRow()
	v.label(label)
	v.askAhead()
	lanes(func() { v.k.body(v) })
	v.nextRow()
	v.op("DECQ", "AX")
	v.op("JNZ", label)
	lanes(func() { v.move(v.lane(v.j), v.at(dstReg, 4), false) })
}

// firstRow begins a loop of AX rows.
func (v *vector) firstRow() {
	v.op("MOVQ", "job_rows(BX)", "AX")
	v.op("MOVQ", "job_stride(BX)", aheadReg)
	v.op("SHLQ", "$6", aheadReg)
	for i := range v.k.src {
		v.op("MOVQ", fmt.Sprintf("job_src+%d(BX)", 8*i), srcRegs[i])
	}
}

// askAhead requests the inputs of the next block of 64 pixels, row by row: rows lie far apart.
func (v *vector) askAhead() {
	if v.masked {
		return
	}
	v.op("LEAQ", fmt.Sprintf("(%s)(%s*1)", srcRegs[0], aheadReg), "R13")
	size := map[byte]int{'f': 4, 'b': 2}[v.types[0]]
	for at := 0; at < 64*size; at += 64 {
		v.op("PREFETCHT1", fmt.Sprintf("%d(R13)(CX*%d)", at, size))
	}
}

// moments adds x - y and its square down the rows, to dst and to a second result: y is a
// row of its own. AVX2 has registers for half a block at a time.
func (v *vector) moments(label string) {
	const many = 4
	for first := 0; first < 64/v.lanes(); first += many {
		label := fmt.Sprintf("%s%d", label, first)
		lanes := func(f func(from, sum, squares int)) {
			for i := range many {
				v.j = first + i
				v.mask()
				if v.wide() {
					f(8+i, 16+i, 20+i)
				} else {
					f(3+i, 7+i, 11+i)
				}
			}
		}
		lanes(func(from, sum, squares int) {
			v.load(1, from)
			v.move(v.at(dstReg, 4), sum, true)
			v.move(v.at(srcRegs[2], 4), squares, true)
		})
		v.firstRow()
		v.label(label)
		if first == 0 {
			v.askAhead()
		}
		lanes(func(from, sum, squares int) {
			v.load(0, 0)
			v.op("VSUBPS", from, 0, 0)
			v.op("VADDPS", 0, sum, sum)
			v.op("VFMADD231PS", 0, 0, squares)
		})
		v.op("ADDQ", "job_stride(BX)", srcRegs[0])
		v.op("DECQ", "AX")
		v.op("JNZ", label)
		lanes(func(_, sum, squares int) {
			v.move(sum, v.at(dstReg, 4), false)
			v.move(squares, v.at(srcRegs[2], 4), false)
		})
	}
}

// rowsInOrder runs the body over one row after the other. (Two rows at a time, with the
// columns' numbers loaded once for both, are 10 % faster in cache and half as fast in
// memory.)
func (v *vector) rowsInOrder() {
	v.label("row")
	v.across()
	v.nextRow()
	v.op("DECQ", "job_rows(BX)")
	v.op("JNZ", "row")
}

// nextRow moves on operands that have rows.
func (v *vector) nextRow() {
	for i, letter := range v.k.src {
		if letter != 'c' {
			v.op("ADDQ", fmt.Sprintf("job_stride+%d(BX)", 8*i), srcRegs[i])
		}
	}
	if v.k.rows {
		v.op("ADDQ", "job_stride+16(BX)", dstReg)
	}
}

// per is tmp with the numbers of source i for the columns.
func (v *vector) per(i, tmp int) int {
	v.load(i, tmp)
	return tmp
}

// Long bodies, four vectors abreast. A body that is one long chain, like that of e^x, leaves units idle when vectors
// come one after another: instructions that wait for their operands fill the scheduler before the next chain is
// reached. So on AVX-512 the four vectors of a block take turns, instruction by instruction, in registers of their
// own: 0 to n-1 of the body become four times n. Constants of the loop, the job's numbers among them, are held in
// registers from 31 down, as far as they reach.

func (v *vector) together() bool { return v.k.abreast > 0 && v.wide() }

// own is the register of the current vector for one of the body's.
func (v *vector) own(r int) int {
	if v.together() && r < v.k.abreast {
		return r + v.k.abreast*v.j
	}
	return r
}

// held is the register that holds name's value; none where all are taken.
func (v *vector) held(name string) (r int, ok bool) {
	const top = 31
	lowest := max(16, 4*v.k.abreast)
	if v.k.sum || v.k.max {
		lowest = 20 // below are the lanes
	}
	i := slices.Index(v.names, name)
	if i < 0 {
		i = len(v.names)
		if top-i < lowest {
			return 0, false
		}
		v.names = append(v.names, name)
	}
	return top - i, true
}

// rehearse finds the body's constants, and loads them.
func (v *vector) rehearse() {
	v.names, v.j = nil, 0
	if v.k.body == nil {
		return
	}
	v.written(v.k.body)
	for _, name := range v.names {
		inst := "VMOVUPS"
		if strings.HasPrefix(name, "job_s") {
			inst = "VBROADCASTSS"
		}
		r, _ := v.held(name)
		v.op(inst, name, fmt.Sprintf("Z%d", r))
	}
}

// written is a body's output, which is taken back.
func (v *vector) written(body func(v *vector)) []string {
	at := v.Len()
	body(v)
	lines := strings.SplitAfter(string(bytes.Clone(v.Bytes()[at:])), "\n")
	v.Truncate(at)
	return lines[:len(lines)-1]
}

// turns writes a block whose vectors take turns, up to the store: that needs a mask.
func (v *vector) turns() {
	var lines [][]string
	compute := 0
	for v.j = 0; v.j < 64/v.lanes(); v.j++ {
		v.stored = 0
		at := bytes.Count(v.Bytes(), []byte("\n"))
		lines = append(lines, v.written(v.k.body))
		compute = v.stored - at
	}
	for i := range compute {
		for _, l := range lines {
			v.WriteString(l[i])
		}
	}
	for _, l := range lines {
		v.WriteString(strings.Join(l[compute:], ""))
	}
}

// ask requests the next call's inputs and outputs, while this one computes.
func (v *vector) ask() {
	if v.masked {
		return
	}
	size := map[byte]int{'f': 4, 'b': 2}[v.types[0]]
	for i, letter := range v.k.src {
		for at := 0; at < 64*size && (letter == 'p' || letter == 'w'); at += 64 {
			v.op("PREFETCHT0", fmt.Sprintf("%d(%s)(CX*%d)", at, srcRegs[i], size))
		}
	}
}
