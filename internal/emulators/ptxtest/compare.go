package ptxtest

import (
	"math"
	"strings"
)

// Comparisons, and operations on predicates: a bit for each lane.

// compare is the row of setp.COMPARISON[.ftz].TYPE.
func compare(rest string) (row, bool) {
	name, kind, _ := strings.Cut(rest, ".")
	kind = strings.TrimPrefix(kind, "ftz.")
	want, ok := comparisons[name]
	if !ok {
		return row{}, false
	}
	switch kind {
	case "f32":
		return setp32("prr", func(a, b *words) (yes uint32) {
			for l := range a {
				yes |= order(flushed(a[l]), flushed(b[l])).bit(want) << l
			}
			return yes
		}), true
	case "s32":
		return setp32("prr", func(a, b *words) (yes uint32) {
			for l := range a {
				yes |= order(int32(a[l]), int32(b[l])).bit(want) << l
			}
			return yes
		}), true
	case "u32", "b32":
		return setp32("prr", func(a, b *words) (yes uint32) {
			for l := range a {
				yes |= order(a[l], b[l]).bit(want) << l
			}
			return yes
		}), true
	case "s16":
		return setp32("phh", func(a, b *words) (yes uint32) {
			for l := range a {
				yes |= order(int16(a[l]), int16(b[l])).bit(want) << l
			}
			return yes
		}), true
	case "s64":
		return setp64(func(a, b uint64) uint32 { return order(int64(a), int64(b)).bit(want) }), true
	case "f64":
		return setp64(func(a, b uint64) uint32 {
			return order(math.Float64frombits(a), math.Float64frombits(b)).bit(want)
		}), true
	case "u64", "b64":
		return setp64(func(a, b uint64) uint32 { return order(a, b).bit(want) }), true
	}
	return row{}, false
}

// An ordering is the order of two numbers; unordered with NaN.
type ordering byte

const (
	less ordering = 1 << iota
	equal
	greater
	unordered
)

func order[T int16 | int32 | uint32 | int64 | uint64 | float32 | float64](a, b T) ordering {
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

// bit is 1 where an ordering is among those that are wanted.
func (o ordering) bit(want ordering) uint32 {
	if o&want != 0 {
		return 1
	}
	return 0
}

// comparisons: those that end in u hold for NaN, too.
var comparisons = map[string]ordering{
	"eq": equal, "ne": less | greater, "lt": less, "le": less | equal, "gt": greater, "ge": greater | equal,
	"equ": equal | unordered, "neu": less | greater | unordered, "ltu": less | unordered, "leu": less | equal | unordered,
	"gtu": greater | unordered, "geu": greater | equal | unordered,
}

func setp32(signature string, f func(a, b *words) uint32) row {
	return row{signature, func(w *warp, in *instruction, m uint32) {
		d := &w.predicates[in.args[0].i]
		*d = *d&^m | f(w.r(in.args[1]), w.r(in.args[2]))&m
	}, onwards}
}

func setp64(f func(a, b uint64) uint32) row {
	return row{"pqq", func(w *warp, in *instruction, m uint32) {
		a, b, yes := w.q(in.args[1]), w.q(in.args[2]), uint32(0)
		for l := range a {
			yes |= f(a[l], b[l]) << l
		}
		d := &w.predicates[in.args[0].i]
		*d = *d&^m | yes&m
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
