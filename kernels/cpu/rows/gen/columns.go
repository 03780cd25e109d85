package main

import "fmt"

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

// askAhead requests what the next block of 64 pixels reads, row by row: rows lie far apart.
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

// nextRow moves on what has rows.
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
