package ptxtest

import (
	"fmt"
	"math/bits"
	"strings"
)

// A row is the meaning of an instruction's name. Its signature has a letter for each operand, results first:
//
//	p predicate · x predicate or constant · h 16 bits · r 32 bits · q 64 bits · w 16 or more · v 32 or more
//	m address · i constant
//
// A constant may stand for h, r, q and w.
type row struct {
	signature string
	run       func(w *warp, in *instruction, m uint32) // for the lanes of m
	flow      flow
}

// flow is an instruction's effect on the control flow.
type flow byte

const (
	onwards flow = iota
	branch
	exit
	call
	back
	together // all lanes of the warp must have come
	named    // those of the mask that is the last operand
	barrier  // together, and then the warp waits for others
	spinning // asks for something; the warp gives way where it is not there yet
)

// find is an instruction's row.
func find(name string) (row, error) {
	if r, ok := rows[name]; ok {
		return r, nil
	}
	first, rest, _ := strings.Cut(name, ".")
	if family, ok := families[first]; ok {
		if r, ok := family(rest); ok {
			return r, nil
		}
	}
	return row{}, fmt.Errorf("the interpreter does not know this instruction")
}

func (r row) check(args []operand) error {
	if len(args) != len(r.signature) {
		return fmt.Errorf("%d operands, want %d", len(args), len(r.signature))
	}
	for i, a := range args {
		if !fits(r.signature[i], a.class) {
			return fmt.Errorf("operand %d is of another kind", i+1)
		}
	}
	return nil
}

func fits(letter byte, c class) bool {
	switch letter {
	case 'p':
		return c == predicate
	case 'h':
		return c == half || c == constant
	case 'r':
		return c == word || c == constant || c == sink
	case 'q':
		return c == double || c == constant || c == sink
	case 'w': // 16 bits or more
		return c == half || c == word || c == constant
	case 'v': // 32 bits or more
		return c == word || c == double || c == sink
	case 'x': // a predicate or a constant
		return c == predicate || c == constant
	case 'm':
		return c == address
	case 'i':
		return c == constant
	}
	return false
}

// rows are all instructions but those of the families.
var rows = tables(control, integers, shifts, widening, floats, conversions, moves, predicates, exchanges, barriers,
	matrices, copies, objects, engine, products)

// families are instructions whose names have parts that go with each other freely.
var families = map[string]func(rest string) (row, bool){
	"setp":  compare,
	"ld":    load,
	"st":    store,
	"wgmma": warpgroup,
}

func tables(all ...map[string]row) map[string]row {
	t := map[string]row{}
	for _, some := range all {
		for name, r := range some {
			if _, twice := t[name]; twice {
				panic("ptxtest: two rows for " + name)
			}
			t[name] = r
		}
	}
	return t
}

var control = map[string]row{
	"bra": {"", nil, branch},
	"ret": {"", nil, exit},
	"ret.back": {"", func(w *warp, in *instruction, m uint32) { // each lane to where it was called from
		to := w.words[in.target]
		each(m, func(l int) { w.pc[l] = int32(to[l]) })
	}, back},
	"call": {"", nil, call},
	// Kernels start one after another here.
	"griddepcontrol.wait":              {"", func(w *warp, in *instruction, m uint32) { w.followed = true }, onwards},
	"griddepcontrol.launch_dependents": {"", nothing, onwards},
}

func nothing(*warp, *instruction, uint32) {}

const everyLane = 1<<lanes - 1

// each calls f for every lane of a mask.
func each(m uint32, f func(lane int)) {
	if m == everyLane {
		for l := range lanes {
			f(l)
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		f(bits.TrailingZeros32(m))
	}
}

// r and q are an operand's values in all lanes.
func (w *warp) r(o operand) *words {
	switch o.class {
	case constant:
		return &w.p.constants[o.i]
	case sink:
		return &w.unread32
	}
	return &w.words[o.i]
}

func (w *warp) q(o operand) *doubles {
	switch o.class {
	case constant:
		return &w.p.wide[o.i]
	case sink:
		return &w.unread64
	}
	return &w.doubles[o.i]
}

// The functions below make rows of functions of one lane.

func unary32(f func(a uint32) uint32) row {
	return row{"rr", func(w *warp, in *instruction, m uint32) {
		d, a := w.r(in.args[0]), w.r(in.args[1])
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			d[l] = f(a[l])
		}
	}, onwards}
}

func binary32(f func(a, b uint32) uint32) row {
	return row{"rrr", func(w *warp, in *instruction, m uint32) {
		d, a, b := w.r(in.args[0]), w.r(in.args[1]), w.r(in.args[2])
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			d[l] = f(a[l], b[l])
		}
	}, onwards}
}

// every is a row of a function of all lanes at once; results of lanes that do not run it are dropped.
func every(f func(d, a, b *words)) row {
	return row{"rrr", func(w *warp, in *instruction, m uint32) {
		d, a, b := w.r(in.args[0]), w.r(in.args[1]), w.r(in.args[2])
		if m == everyLane {
			f(d, a, b)
			return
		}
		var t words
		f(&t, a, b)
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			d[l] = t[l]
		}
	}, onwards}
}

func ternary32(f func(a, b, c uint32) uint32) row {
	return row{"rrrr", func(w *warp, in *instruction, m uint32) {
		d, a, b, c := w.r(in.args[0]), w.r(in.args[1]), w.r(in.args[2]), w.r(in.args[3])
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			d[l] = f(a[l], b[l], c[l])
		}
	}, onwards}
}

func unary64(f func(a uint64) uint64) row {
	return row{"qq", func(w *warp, in *instruction, m uint32) {
		d, a := w.q(in.args[0]), w.q(in.args[1])
		each(m, func(l int) { d[l] = f(a[l]) })
	}, onwards}
}

func binary64(f func(a, b uint64) uint64) row {
	return row{"qqq", func(w *warp, in *instruction, m uint32) {
		d, a, b := w.q(in.args[0]), w.q(in.args[1]), w.q(in.args[2])
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			d[l] = f(a[l], b[l])
		}
	}, onwards}
}

// of16 is a row whose registers have 16 bits.
func of16(r row) row {
	r.signature = strings.ReplaceAll(r.signature, "r", "h")
	return r
}
