package ptxtest

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
