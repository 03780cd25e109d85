package ptxtest

import "math/bits"

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
