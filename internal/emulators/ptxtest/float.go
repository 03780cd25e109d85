package ptxtest

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

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
