package cuda

import "github.com/darkroom-rl/darkroom/kernels"

// Products of adapters, whose factors are fp32: src/adapter.cu. They have the bits of the tiles of tensor.go, so
// whether they are taken may depend on anything.

// adapterSide is the most columns that adapter_down computes, and the longest k that adapter_up adds up.
const adapterSide = 64

// What adapter.cu has: the rows and columns of a block, and the bytes of shared memory of adapter_down.
const (
	adapterRows            = 16
	adapterDown, adapterUp = 32, 256
	adapterStages          = 4
	adapterBackShared      = adapterStages * 128 * 2 * 64
	adapterShared          = adapterStages * 128 * (2*adapterRows + 4*adapterDown)
)

// adapterProduct computes a product of an adapter, and reports whether it is one.
func (b *Backend) adapterProduct(op string, p *productArgs) bool {
	if b.reading.tilesAlone || p.a.kind != int32(kernels.BF16) || !p.a.pieces(8) {
		return false
	}
	p.paired = flag(p.together(2))
	kernel, rows, cols, shared := "", int64(adapterRows), int64(adapterUp), 0
	switch {
	case p.backs():
		kernel, rows, cols, shared = "adapter_back", adapterDown, adapterDown, adapterBackShared
	case p.a.form != operandRows || p.b.form > operandColumns || p.runs != 1 || p.fold != 0 || p.listed != 0 || p.starts != 0 ||
		p.b.kind != int32(kernels.F32) || !p.b.pieces(4) || p.k%8 != 0 || p.n%4 != 0:
		return false
	case p.k <= adapterSide && p.together(8):
		kernel = "adapter_up_"
	case p.n <= adapterSide:
		kernel, cols, shared = "adapter_down_", adapterDown, adapterShared
	default:
		return false
	}
	if shared > b.device.Shared {
		return false
	}
	switch {
	case p.backs():
	case p.b.form == operandRows:
		kernel += "nt"
	default:
		kernel += "nn"
	}
	b.reading.adapters++
	blocks := (p.m + rows - 1) / rows * ((p.n + cols - 1) / cols)
	b.launch(op, kernel, [2]int{int(blocks), 1}, 128, shared, p)
	return true
}

// backs says that p is the gradient of a factor, or another product over rows with a side as short.
func (p *productArgs) backs() bool {
	return p.a.form == operandColumns && p.b.form == operandColumns && p.b.kind == int32(kernels.BF16) && p.b.pieces(8) && min(p.m, p.n) <= adapterSide &&
		p.m%8 == 0 && p.n%8 == 0 && p.paired != 0 && p.bias.p == 0 && p.pre.p == 0 && p.act == 0 && p.gate.p == 0 && p.residual.p == 0
}

// pieces says that pieces of so many elements lie whole in memory.
func (o operand) pieces(n int64) bool {
	return o.stride%n == 0 && o.p%uintptr(n*int64(kernels.DType(o.kind).Size())) == 0
}
