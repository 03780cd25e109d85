package ptxtest

import "strings"

// Comparisons, and what is done with predicates: a bit for each lane.

// compare is the row of setp.COMPARISON[.ftz].TYPE.
func compare(rest string) (row, bool) {
	name, kind, _ := strings.Cut(rest, ".")
	kind = strings.TrimPrefix(kind, "ftz.")
	holds, ok := comparisons[name]
	if !ok {
		return row{}, false
	}
	switch kind {
	case "f32":
		return setp32("prr", func(a, b uint32) bool { return holds(order(flushed(a), flushed(b))) }), true
	case "s32":
		return setp32("prr", func(a, b uint32) bool { return holds(order(int32(a), int32(b))) }), true
	case "u32", "b32":
		return setp32("prr", func(a, b uint32) bool { return holds(order(a, b)) }), true
	case "s16":
		return setp32("phh", func(a, b uint32) bool { return holds(order(int16(a), int16(b))) }), true
	case "s64":
		return setp64(func(a, b uint64) bool { return holds(order(int64(a), int64(b))) }), true
	case "u64", "b64":
		return setp64(func(a, b uint64) bool { return holds(order(a, b)) }), true
	}
	return row{}, false
}

// An ordering is how two numbers stand; unordered where one is none.
type ordering byte

const (
	less ordering = 1 << iota
	equal
	greater
	unordered
)

func order[T int16 | int32 | uint32 | int64 | uint64 | float32](a, b T) ordering {
	switch {
	case a < b:
		return less
	case a > b:
		return greater
	case a == b:
		return equal
	}
	return unordered
}

func stands(of ordering) func(ordering) bool { return func(o ordering) bool { return o&of != 0 } }

// comparisons: those that end in u hold where a number is none as well.
var comparisons = map[string]func(ordering) bool{
	"eq": stands(equal), "ne": stands(less | greater), "lt": stands(less), "le": stands(less | equal),
	"gt": stands(greater), "ge": stands(greater | equal),
	"equ": stands(equal | unordered), "neu": stands(less | greater | unordered), "ltu": stands(less | unordered),
	"leu": stands(less | equal | unordered), "gtu": stands(greater | unordered),
	"geu": stands(greater | equal | unordered),
}

func setp32(signature string, f func(a, b uint32) bool) row {
	return row{signature, func(w *warp, in *instruction, m uint32) {
		a, b := w.r(in.args[1]), w.r(in.args[2])
		w.decide(in.args[0], m, func(l int) bool { return f(a[l], b[l]) })
	}, onwards}
}

func setp64(f func(a, b uint64) bool) row {
	return row{"pqq", func(w *warp, in *instruction, m uint32) {
		a, b := w.q(in.args[1]), w.q(in.args[2])
		w.decide(in.args[0], m, func(l int) bool { return f(a[l], b[l]) })
	}, onwards}
}

// decide sets a predicate's bits in the lanes of m.
func (w *warp) decide(to operand, m uint32, f func(lane int) bool) {
	yes := uint32(0)
	each(m, func(l int) {
		if f(l) {
			yes |= 1 << l
		}
	})
	d := &w.predicates[to.i]
	*d = *d&^m | yes
}

var predicates = map[string]row{
	"and.pred": masks(func(a, b uint32) uint32 { return a & b }),
	"or.pred":  masks(func(a, b uint32) uint32 { return a | b }),
	"xor.pred": masks(func(a, b uint32) uint32 { return a ^ b }),
	"not.pred": {"pp", func(w *warp, in *instruction, m uint32) {
		d := &w.predicates[in.args[0].i]
		*d = *d&^m | ^w.predicates[in.args[1].i]&m
	}, onwards},
	"mov.pred": {"px", func(w *warp, in *instruction, m uint32) {
		d := &w.predicates[in.args[0].i]
		*d = *d&^m | w.mask(in.args[1])&m
	}, onwards},
	"selp.b32": {"rrrp", select32, onwards},
	"selp.u32": {"rrrp", select32, onwards},
	"selp.f32": {"rrrp", select32, onwards},
	"selp.u16": {"hhhp", select32, onwards},
	"selp.b64": {"qqqp", select64, onwards},
	"selp.u64": {"qqqp", select64, onwards},
}

// mask is a predicate's bits: of a constant, all alike.
func (w *warp) mask(o operand) uint32 {
	if o.class != constant {
		return w.predicates[o.i]
	}
	if w.p.constants[o.i][0] == 0 {
		return 0
	}
	return everyLane
}

func masks(f func(a, b uint32) uint32) row {
	return row{"pxx", func(w *warp, in *instruction, m uint32) {
		d := &w.predicates[in.args[0].i]
		*d = *d&^m | f(w.mask(in.args[1]), w.mask(in.args[2]))&m
	}, onwards}
}

func select32(w *warp, in *instruction, m uint32) {
	d, a, b, p := w.r(in.args[0]), w.r(in.args[1]), w.r(in.args[2]), w.predicates[in.args[3].i]
	each(m&p, func(l int) { d[l] = a[l] })
	each(m&^p, func(l int) { d[l] = b[l] })
}

func select64(w *warp, in *instruction, m uint32) {
	d, a, b, p := w.q(in.args[0]), w.q(in.args[1]), w.q(in.args[2]), w.predicates[in.args[3].i]
	each(m&p, func(l int) { d[l] = a[l] })
	each(m&^p, func(l int) { d[l] = b[l] })
}
