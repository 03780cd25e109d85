package main

import "fmt"

// fill writes a function that fills memory from whole groups of blocks, as many
// as a register has 32-bit lanes. The blocks of a group are computed in two
// halves, whose 64-bit lanes hold one number of the state each in their low
// words: a product is then one VPMULUDQ, whose high word needs no mask.
//
// Registers: 0 to 3 and 6 to 9 the states of the halves, 4, 5, 10, 11 products,
// 14 the first block's number; 15 is scratch for AVX2.
func (v *vector) fill(verb string, transform func(v *vector, x, y int)) {
	fmt.Fprintf(v, "// func %s%s(dst unsafe.Pointer, j *job)\n", verb, v.path)
	fmt.Fprintf(v, "TEXT ·%s%s(SB), NOSPLIT, $0-16\n", verb, v.path)
	v.op("MOVQ", "dst+0(FP)", "DI")
	v.op("MOVQ", "j+8(FP)", "SI")
	v.op("MOVQ", "job_groups(SI)", "CX")
	if v.wide() {
		v.op("MOVL", "$0xAAAA", "AX")
		v.op("KMOVW", "AX", "K3")
	}
	v.op("VPBROADCASTQ", "job_block(SI)", 14)
	v.label("group")
	v.blocks()
	if transform != nil {
		transform(v, 0, 1)
		transform(v, 2, 3)
	}
	v.store()
	v.op("DECQ", "CX")
	v.op("JNZ", "group")
	v.op("VZEROUPPER")
	v.op("RET")
	v.WriteByte('\n')
}

// blocks leaves the words of a group in registers 0 to 3: word i of its blocks in
// register i. The order of the blocks is that which store wants: lane 4a+b of a
// register belongs to block b·(lanes/4) + a.
func (v *vector) blocks() {
	lanes := v.width / 4
	var even, odd []uint64
	for lane := 0; lane < lanes; lane += 2 {
		even = append(even, uint64(lane%4*lanes/4+lane/4))
		odd = append(odd, uint64((lane%4+1)*lanes/4+lane/4))
	}
	v.note("the counters: block, stream")
	v.op("VPADDQ", v.u64("even", even...), 14, 0)
	v.op("VPADDQ", v.u64("odd", odd...), 14, 6)
	v.op("VPADDQ", v.u64("group", uint64(lanes)), 14, 14)
	for _, c := range []int{0, 6} {
		v.op("VPSRLQ", "$32", c, c+1)
		v.op("VPBROADCASTD", "job_stream+0(SI)", c+2)
		v.op("VPBROADCASTD", "job_stream+4(SI)", c+3)
	}
	v.note("ten rounds")
	for round := range 10 {
		for _, c := range []int{0, 6} {
			c1, c3, p1, p0 := c+1, c+3, c+5, c+4
			if round%2 == 1 { // the products of the round before are the state now
				c1, c3, p1, p0 = p1, p0, c1, c3
			}
			v.op("VPMULUDQ", v.u64("m0", 0xD2511F53), c, p0)
			v.op("VPMULUDQ", v.u64("m1", 0xCD9E8D57), c+2, p1)
			v.op("VPSRLQ", "$32", p1, c)
			v.op("VPSRLQ", "$32", p0, c+2)
			v.xor3(fmt.Sprintf("job_keys+%d(SI)", 8*round), c1, c)
			v.xor3(fmt.Sprintf("job_keys+%d(SI)", 8*round+4), c3, c+2)
		}
	}
	v.note("both halves into one register a word")
	for i := range 4 {
		v.interleave(i, 6+i)
	}
}

// store writes registers 0 to 3, each block's four numbers side by side.
func (v *vector) store() {
	v.note("transpose 4 x 4 in each 128 bits, and store")
	v.op("VUNPCKLPS", 1, 0, 4)
	v.op("VUNPCKLPS", 3, 2, 5)
	v.op("VUNPCKHPS", 1, 0, 6)
	v.op("VUNPCKHPS", 3, 2, 7)
	v.op("VUNPCKLPD", 5, 4, 0)
	v.op("VUNPCKHPD", 5, 4, 1)
	v.op("VUNPCKLPD", 7, 6, 2)
	v.op("VUNPCKHPD", 7, 6, 3)
	for i := range 4 {
		v.op("VMOVUPS", i, fmt.Sprintf("%d(DI)", i*v.width))
	}
	v.op("ADDQ", fmt.Sprintf("$%d", 4*v.width), "DI")
}
