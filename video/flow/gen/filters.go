package main

import "fmt"

// kind is the type of a filter's input and output.
type kind struct {
	bits     string // PS or PD
	from, to int    // bytes of a number
}

var (
	single  = kind{"PS", 4, 4}
	widened = kind{"PD", 4, 8}
	double  = kind{"PD", 8, 8}
)

// vectors is how many registers hold a block of 16.
func (k kind) vectors() int { return 16 * k.to / 32 }

func (k kind) broadcast() string { return "VBROADCASTS" + k.bits[1:] }

// load reads vector j of a row, widening where needed.
func (e *emitter) load(k kind, j int, base, to string) {
	if k.from == k.to {
		e.op("VMOVU"+k.bits, fmt.Sprintf("%d(%s)(CX*%d)", 32*j, base, k.from), to)
	} else {
		e.op("VCVTPS2PD", fmt.Sprintf("%d(%s)(CX*%d)", 16*j, base, k.from), to)
	}
}

// filter is symmetric, window and across; three is expand, which has sums of three kinds.
//
// CX counts numbers, R9 is the middle row's slice, R10 and R11 go outwards from it, R12 goes
// through the weights.
func (e *emitter) filter(name string, three bool, k kind) {
	dst := "dst *" + map[int]string{4: "float32", 8: "float64"}[k.to]
	sums := 1
	if three {
		dst, sums = "dst *[]float32", 3
	}
	e.text(name, fmt.Sprintf("%s, rows *[]float%d, weights *float%d, radius, n int", dst, 8*k.from, 8*k.to), 40)
	for i, r := range []string{"DI", "R9", "BX", "DX", "R8"} {
		e.op("MOVQ", []string{"dst", "rows", "weights", "radius", "n"}[i]+fmt.Sprintf("+%d(FP)", 8*i), r)
	}
	e.op("LEAQ", "(DX)(DX*2)", "AX")
	e.op("LEAQ", "(R9)(AX*8)", "R9")
	e.op("XORQ", "CX", "CX")
	e.label("loop")
	e.op("MOVQ", "(R9)", "AX")
	n := k.vectors()
	acc := func(s, j int) string { return y(s*n + j) }
	for s := range sums {
		if s == 1 {
			for j := range n {
				e.op("VXORPS", acc(s, j), acc(s, j), acc(s, j))
			}
			continue
		}
		e.op(k.broadcast(), fmt.Sprintf("%d(BX)", s*k.to), "Y15")
		for j := range n {
			e.load(k, j, "AX", "Y14")
			e.op("VMUL"+k.bits, "Y14", "Y15", acc(s, j))
		}
	}
	e.op("MOVQ", "R9", "R10")
	e.op("MOVQ", "R9", "R11")
	e.op("MOVQ", "BX", "R12")
	e.op("MOVQ", "DX", "SI")
	e.op("TESTQ", "SI", "SI")
	e.op("JEQ", "store")
	e.label("pair")
	e.op("SUBQ", "$24", "R10")
	e.op("ADDQ", "$24", "R11")
	e.op("ADDQ", fmt.Sprintf("$%d", sums*k.to), "R12")
	e.op("MOVQ", "(R10)", "AX")
	e.op("MOVQ", "(R11)", "R13")
	for s := range sums {
		e.op(k.broadcast(), fmt.Sprintf("%d(R12)", s*k.to), y(15-s))
	}
	for j := range n {
		e.load(k, j, "AX", "Y10")
		e.load(k, j, "R13", "Y11")
		e.op("VADD"+k.bits, "Y11", "Y10", "Y12")
		if three {
			e.op("VSUB"+k.bits, "Y10", "Y11", "Y10") // after - before
		}
		for s := range sums {
			from := "Y12"
			if s == 1 {
				from = "Y10"
			}
			e.op("VMUL"+k.bits, from, y(15-s), "Y11")
			e.op("VADD"+k.bits, "Y11", acc(s, j), acc(s, j))
		}
	}
	e.op("DECQ", "SI")
	e.op("JNE", "pair")
	e.label("store")
	for s := range sums {
		base := "DI"
		if three {
			base = "AX"
			e.op("MOVQ", fmt.Sprintf("%d(DI)", 24*s), base)
		}
		for j := range n {
			e.op("VMOVU"+k.bits, acc(s, j), fmt.Sprintf("%d(%s)(CX*%d)", 32*j, base, k.to))
		}
	}
	e.op("ADDQ", "$16", "CX")
	e.op("CMPQ", "CX", "R8")
	e.op("JLT", "loop")
	e.end()
}
