package ptxtest

import (
	"math"
	"math/bits"
	"strings"

	"github.com/darkroom-rl/darkroom/portable"
)

// Whole numbers. PTX leaves a quotient by zero open; here it is all ones.

var integers = map[string]row{
	"add.s32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = a[l] + b[l]
		}
	}),
	"sub.s32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = a[l] - b[l]
		}
	}),
	"mul.lo.s32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = a[l] * b[l]
		}
	}),
	"mul.hi.s32": binary32(func(a, b uint32) uint32 { return uint32(uint64(int64(int32(a))*int64(int32(b))) >> 32) }),
	"mad.lo.s32": ternary32(func(a, b, c uint32) uint32 { return a*b + c }),
	"div.s32": binary32(func(a, b uint32) uint32 {
		if b == 0 {
			return ^uint32(0)
		}
		return uint32(int32(a) / int32(b))
	}),
	"rem.s32": binary32(func(a, b uint32) uint32 {
		if b == 0 {
			return ^uint32(0)
		}
		return uint32(int32(a) % int32(b))
	}),
	"div.u32": binary32(func(a, b uint32) uint32 {
		if b == 0 {
			return ^uint32(0)
		}
		return a / b
	}),
	"rem.u32": binary32(func(a, b uint32) uint32 {
		if b == 0 {
			return ^uint32(0)
		}
		return a % b
	}),
	"min.s32": binary32(func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }),
	"max.s32": binary32(func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }),
	"max.u32": binary32(func(a, b uint32) uint32 { return max(a, b) }),
	"and.b32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = a[l] & b[l]
		}
	}),
	"or.b32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = a[l] | b[l]
		}
	}),
	"xor.b32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = a[l] ^ b[l]
		}
	}),
	"not.b32": unary32(func(a uint32) uint32 { return ^a }),
	"neg.s32": unary32(func(a uint32) uint32 { return -a }),

	"add.s16": of16(binary32(func(a, b uint32) uint32 { return (a + b) & 0xffff })),
	"and.b16": of16(binary32(func(a, b uint32) uint32 { return a & b & 0xffff })),
	"or.b16":  of16(binary32(func(a, b uint32) uint32 { return (a | b) & 0xffff })),

	"add.s64":    binary64(func(a, b uint64) uint64 { return a + b }),
	"add.u64":    binary64(func(a, b uint64) uint64 { return a + b }),
	"sub.s64":    binary64(func(a, b uint64) uint64 { return a - b }),
	"mul.lo.s64": binary64(func(a, b uint64) uint64 { return a * b }),
	"div.s64": binary64(func(a, b uint64) uint64 {
		if b == 0 {
			return ^uint64(0)
		}
		return uint64(int64(a) / int64(b))
	}),
	"rem.s64": binary64(func(a, b uint64) uint64 {
		if b == 0 {
			return ^uint64(0)
		}
		return uint64(int64(a) % int64(b))
	}),
	"div.u64": binary64(func(a, b uint64) uint64 {
		if b == 0 {
			return ^uint64(0)
		}
		return a / b
	}),
	"min.s64": binary64(func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) }),
	"max.s64": binary64(func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) }),
	"and.b64": binary64(func(a, b uint64) uint64 { return a & b }),
	"or.b64":  binary64(func(a, b uint64) uint64 { return a | b }),
	"xor.b64": binary64(func(a, b uint64) uint64 { return a ^ b }),
	"not.b64": unary64(func(a uint64) uint64 { return ^a }),
	"neg.s64": unary64(func(a uint64) uint64 { return -a }),
}

// Shifts by more than a number has bits leave zeros, or its sign.
var shifts = map[string]row{
	"shl.b32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = a[l] << b[l]
		}
	}),
	"shr.u32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = a[l] >> b[l]
		}
	}),
	"shr.s32": binary32(func(a, b uint32) uint32 { return uint32(int32(a) >> b) }),
	"shr.u16": {"hhr", binary32(func(a, b uint32) uint32 { return a & 0xffff >> b }).run, onwards},
	"shl.b64": shift64(func(a uint64, b uint32) uint64 { return a << b }),
	"shr.u64": shift64(func(a uint64, b uint32) uint64 { return a >> b }),
	"shr.s64": shift64(func(a uint64, b uint32) uint64 { return uint64(int64(a) >> b) }),
	"bfi.b32": {"rrrrr", func(w *warp, in *instruction, m uint32) {
		d, a, b, c, n := w.r(in.args[0]), w.r(in.args[1]), w.r(in.args[2]), w.r(in.args[3]), w.r(in.args[4])
		each(m, func(l int) { d[l] = uint32(inserted(uint64(a[l]), uint64(b[l]), c[l], n[l])) })
	}, onwards},
	"bfi.b64": {"qqqrr", func(w *warp, in *instruction, m uint32) {
		d, a, b, c, n := w.q(in.args[0]), w.q(in.args[1]), w.q(in.args[2]), w.r(in.args[3]), w.r(in.args[4])
		each(m, func(l int) { d[l] = inserted(a[l], b[l], c[l], n[l]) })
	}, onwards},
}

// inserted is b with the lowest n bits of a from bit c on. Both counts are of 8 bits.
func inserted(a, b uint64, c, n uint32) uint64 {
	mask := (uint64(1)<<(n&0xff) - 1) << (c & 0xff)
	return b&^mask | a<<(c&0xff)&mask
}

func shift64(f func(a uint64, b uint32) uint64) row {
	return row{"qqr", func(w *warp, in *instruction, m uint32) {
		d, a, b := w.q(in.args[0]), w.q(in.args[1]), w.r(in.args[2])
		for ; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m) & 31
			d[l] = f(a[l], b[l])
		}
	}, onwards}
}

// Products that have twice as many bits.
var widening = map[string]row{
	"mul.wide.u32": {"qrr", wide(func(a, b uint32) uint64 { return uint64(a) * uint64(b) }), onwards},
	"mul.wide.s32": {"qrr", wide(func(a, b uint32) uint64 { return uint64(int64(int32(a)) * int64(int32(b))) }), onwards},
	"mul.wide.u16": {"rhh", binary32(func(a, b uint32) uint32 { return a & 0xffff * (b & 0xffff) }).run, onwards},
}

func wide(f func(a, b uint32) uint64) func(*warp, *instruction, uint32) {
	return func(w *warp, in *instruction, m uint32) {
		d, a, b := w.q(in.args[0]), w.r(in.args[1]), w.r(in.args[2])
		each(m, func(l int) { d[l] = f(a[l], b[l]) })
	}
}

// Numbers of fp32 and float64.

var floats = map[string]row{
	"add.rn.ftz.f32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = result(flushed(a[l]) + flushed(b[l]))
		}
	}),
	"mul.rn.ftz.f32": every(func(d, a, b *words) {
		for l := range d {
			d[l] = result(flushed(a[l]) * flushed(b[l]))
		}
	}),
	// Without .ftz denormals stay.
	"mul.rn.f32": binary32(func(a, b uint32) uint32 {
		return ieee(math.Float32frombits(a) * math.Float32frombits(b))
	}),
	"sub.rn.f32": binary32(func(a, b uint32) uint32 {
		return ieee(math.Float32frombits(a) - math.Float32frombits(b))
	}),
	"div.rn.ftz.f32":  float2(func(a, b float32) float32 { return a / b }),
	"sqrt.rn.ftz.f32": float1(func(a float32) float32 { return float32(math.Sqrt(float64(a))) }),
	"neg.ftz.f32":     float1(func(a float32) float32 { return -a }),
	// NaN loses against a number, but not with .NaN.
	"max.ftz.f32": float2(func(a, b float32) float32 {
		if a != a {
			return b
		}
		if b != b {
			return a
		}
		return max(a, b)
	}),
	"max.NaN.ftz.f32": float2(func(a, b float32) float32 { return max(a, b) }),
	"fma.rn.ftz.f32": {"rrrr", func(w *warp, in *instruction, m uint32) {
		d, a, b, c := w.r(in.args[0]), w.r(in.args[1]), w.r(in.args[2]), w.r(in.args[3])
		for l := range d {
			if m>>l&1 != 0 {
				d[l] = result(fma32(flushed(a[l]), flushed(b[l]), flushed(c[l])))
			}
		}
	}, onwards},
	// Within the bounds of the document (2^-22, 2^-23), and not the nearest number for every second operand, so that
	// nothing may depend on the last place.
	"ex2.approx.ftz.f32": float1(func(a float32) float32 { return near(portable.Exp(float64(a)*math.Ln2), a) }),
	"rcp.approx.ftz.f32": float1(func(a float32) float32 { return near(1/float64(a), a) }),

	"add.rn.f64": double2(func(a, b float64) float64 { return a + b }),
	"mul.rn.f64": double2(func(a, b float64) float64 { return a * b }),
	"div.rn.f64": double2(func(a, b float64) float64 { return a / b }),
	"neg.f64":    unary64(func(a uint64) uint64 { return a ^ 1<<63 }),
}

// near is x in fp32; where the operand is odd, the neighbour on the other side of x.
func near(x float64, operand float32) float32 {
	y := float32(x)
	if math.Float32bits(operand)&1 == 0 || y != y || float64(y) == x {
		return y
	}
	return math.Nextafter32(y, float32(math.Copysign(math.MaxFloat32, x-float64(y))))
}

func float1(f func(a float32) float32) row {
	return unary32(func(a uint32) uint32 { return result(f(flushed(a))) })
}

func float2(f func(a, b float32) float32) row {
	return binary32(func(a, b uint32) uint32 { return result(f(flushed(a), flushed(b))) })
}

func double2(f func(a, b float64) float64) row {
	return binary64(func(a, b uint64) uint64 {
		return math.Float64bits(f(math.Float64frombits(a), math.Float64frombits(b)))
	})
}

// Roundings of 9.7.3: to nearest even, with .ftz denormals becoming the zero of their sign before and after. NaN has
// one pattern of bits.

const noNumber32 = 0x7fffffff

// flushed is a number of fp32 that .ftz reads.
func flushed(u uint32) float32 {
	if u&0x7f800000 == 0 {
		u &= 0x80000000
	}
	return math.Float32frombits(u)
}

// result returns the bits that .ftz writes.
func result(x float32) uint32 {
	u := math.Float32bits(x)
	switch {
	case x != x:
		return noNumber32
	case u&0x7f800000 == 0:
		return u & 0x80000000
	}
	return u
}

// ieee returns the bits without .ftz.
func ieee(x float32) uint32 {
	if x != x {
		return noNumber32
	}
	return math.Float32bits(x)
}

// fma32 is a*b+c, rounded once. The product of two numbers of 24 bits is exact in float64; its sum with c is rounded to
// odd there, so that the rounding to fp32 is that of the exact sum.
func fma32(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := float64(p + z)
	// Rounding twice is rounding once where the first result is 0, and where it is in the range of fp32's normal numbers
	// and not halfway between two of them.
	if u := math.Float64bits(s); s == 0 || u&(1<<29-1) != 1<<28 && u>>52&0x7ff-898 < 1150-898 {
		return float32(s)
	}
	return fmaOdd(s, p, z)
}

// fmaOdd rounds p + z, of which s is the nearest in float64.
func fmaOdd(s, p, z float64) float32 {
	if math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	back := float64(s - p)
	left := float64(float64(p-float64(s-back)) + float64(z-back)) // the exact rest of the sum beyond s
	if u := math.Float64bits(s); left != 0 && u&1 == 0 {
		if (left > 0) == (s > 0) {
			u++
		} else {
			u--
		}
		s = math.Float64frombits(u)
	}
	return float32(s)
}

// bf16 is x rounded to nearest even, as cvt.rn.bf16 does. Denormals are kept.
func bf16(u uint32) uint32 {
	if u&0x7fffffff > 0x7f800000 {
		return 0x7fff
	}
	return (u + 0x7fff + u>>16&1) >> 16
}

// widened is a number of bf16 in fp32.
func widened(h uint32) float32 { return math.Float32frombits(h << 16) }

func number32(u uint32) float32 { return math.Float32frombits(u) }

func bitsOf(x float32) uint32 { return math.Float32bits(x) }

// Conversions. Those to whole numbers round as their names say and stay within their type; NaN becomes 0.

var conversions = map[string]row{
	// The source may be a wider register, whose lower half counts.
	"cvt.s64.s32": {"qv", func(w *warp, in *instruction, m uint32) {
		d, a := w.q(in.args[0]), in.args[1]
		each(m, func(l int) {
			if a.class == double {
				d[l] = uint64(int64(int32(w.q(a)[l])))
			} else {
				d[l] = uint64(int64(int32(w.r(a)[l])))
			}
		})
	}, onwards},
	"cvt.u64.u32": {"qr", to64(func(a uint32) uint64 { return uint64(a) }), onwards},
	"cvt.u32.u64": {"rq", to32(func(a uint64) uint32 { return uint32(a) }), onwards},
	"cvt.u16.u32": {"hr", unary32(func(a uint32) uint32 { return a & 0xffff }).run, onwards},
	"cvt.u32.u16": {"rh", unary32(func(a uint32) uint32 { return a & 0xffff }).run, onwards},

	"cvt.rn.f32.s32": unary32(func(a uint32) uint32 { return math.Float32bits(float32(int32(a))) }),
	"cvt.rn.f32.u32": unary32(func(a uint32) uint32 { return math.Float32bits(float32(a)) }),
	"cvt.rn.f32.u16": {"rh", unary32(func(a uint32) uint32 { return math.Float32bits(float32(a & 0xffff)) }).run, onwards},
	"cvt.rn.f64.s64": unary64(func(a uint64) uint64 { return math.Float64bits(float64(int64(a))) }),
	"cvt.ftz.f64.f32": {"qr", to64(func(a uint32) uint64 {
		return math.Float64bits(float64(flushed(a)))
	}), onwards},
	"cvt.rn.ftz.f32.f64": {"rq", to32(func(a uint64) uint32 {
		return result(float32(math.Float64frombits(a)))
	}), onwards},

	"cvt.rmi.ftz.f32.f32": float1(func(a float32) float32 { return float32(math.Floor(float64(a))) }),
	"cvt.rzi.ftz.s32.f32": unary32(func(a uint32) uint32 {
		switch x := float64(flushed(a)); {
		case x != x:
			return 0
		case x >= math.MaxInt32:
			return math.MaxInt32
		case x <= math.MinInt32:
			return 1 << 31
		default:
			return uint32(int32(x))
		}
	}),
	// The first operand goes to the upper half.
	"cvt.rn.bf16x2.f32": binary32(func(a, b uint32) uint32 { return bf16(a)<<16 | bf16(b) }),
}

func to64(f func(a uint32) uint64) func(*warp, *instruction, uint32) {
	return func(w *warp, in *instruction, m uint32) {
		d, a := w.q(in.args[0]), w.r(in.args[1])
		each(m, func(l int) { d[l] = f(a[l]) })
	}
}

func to32(f func(a uint64) uint32) func(*warp, *instruction, uint32) {
	return func(w *warp, in *instruction, m uint32) {
		d, a := w.r(in.args[0]), w.q(in.args[1])
		each(m, func(l int) { d[l] = f(a[l]) })
	}
}

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

// Registers to registers. Addresses of spaces and generic addresses differ by the space's window.

var moves = map[string]row{
	"mov.b32": {"rr", move32, onwards},
	"mov.u32": {"rr", move32, onwards},
	"mov.f32": {"rr", move32, onwards},
	"mov.u16": {"hh", move32, onwards},
	"mov.b64": {"qq", move64, onwards},
	"mov.u64": {"qq", move64, onwards},
	"mov.f64": {"qq", move64, onwards},
	"mov.b64.joined": {"qrr", func(w *warp, in *instruction, m uint32) {
		d, lo, hi := w.q(in.args[0]), w.r(in.args[1]), w.r(in.args[2])
		each(m, func(l int) { d[l] = uint64(hi[l])<<32 | uint64(lo[l]) })
	}, onwards},
	"mov.b64.apart": {"rrq", func(w *warp, in *instruction, m uint32) {
		lo, hi, a := w.r(in.args[0]), w.r(in.args[1]), w.q(in.args[2])
		each(m, func(l int) { lo[l], hi[l] = uint32(a[l]), uint32(a[l]>>32) })
	}, onwards},

	"cvta.to.global.u64": {"qq", move64, onwards}, // a generic address of global memory is its address
	"cvta.to.local.u64":  unary64(func(a uint64) uint64 { return a - localWindow }),
	"cvta.local.u64":     unary64(func(a uint64) uint64 { return a + localWindow }),
	"cvta.param.u64":     unary64(func(a uint64) uint64 { return a + paramWindow }),
}

func move32(w *warp, in *instruction, m uint32) {
	d, a := w.r(in.args[0]), w.r(in.args[1])
	if m == everyLane {
		*d = *a
		return
	}
	each(m, func(l int) { d[l] = a[l] })
}

func move64(w *warp, in *instruction, m uint32) {
	d, a := w.q(in.args[0]), w.q(in.args[1])
	if m == everyLane {
		*d = *a
		return
	}
	each(m, func(l int) { d[l] = a[l] })
}
