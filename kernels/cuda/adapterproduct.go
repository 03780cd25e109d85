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
	adapterShared          = adapterStages * 128 * (2*adapterRows + 4*adapterDown)
)

// adapterProduct computes a product of an adapter, and reports whether it is one.
func (b *Backend) adapterProduct(op string, p *productArgs) bool {
	whole := func(o operand, piece int64) bool {
		return o.stride%piece == 0 && o.p%uintptr(piece*int64(kernels.DType(o.kind).Size())) == 0
	}
	if b.reading.tilesAlone || p.a.form != operandRows || p.b.form > operandColumns || p.runs != 1 || p.fold != 0 || p.listed != 0 || p.starts != 0 ||
		p.a.kind != int32(kernels.BF16) || p.b.kind != int32(kernels.F32) || !whole(p.a, 8) || !whole(p.b, 4) || p.k%8 != 0 || p.n%4 != 0 {
		return false
	}
	kernel, cols, shared := "adapter_up_", int64(adapterUp), 0
	switch {
	case p.k <= adapterSide && p.together(8):
	case p.n <= adapterSide && b.device.Shared >= adapterShared:
		kernel, cols, shared = "adapter_down_", adapterDown, adapterShared
	default:
		return false
	}
	b.reading.adapters++
	across := map[int32]string{operandRows: "nt", operandColumns: "nn"}
	p.paired = flag(p.together(2))
	blocks := (p.m + adapterRows - 1) / adapterRows * ((p.n + cols - 1) / cols)
	b.launch(op, kernel+across[p.b.form], [2]int{int(blocks), 1}, 128, shared, p)
	return true
}
