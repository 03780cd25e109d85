package ptxtest

import "math"

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
