package cuda

import (
	"math/bits"

	"github.com/darkroom-rl/darkroom/kernels"
)

type blocks struct {
	p                           uintptr
	flat                        int64
	rows, across, perRow, shift int32
}

func blocksOf(b kernels.Blocks, cols int) blocks {
	args := blocks{p: at(b.Values), flat: int64(b.Flat), rows: int32(b.Rows), across: int32(b.Across), perRow: int32(b.PerRow(cols)), shift: -1}
	if b.Flat > 0 && b.Flat&(b.Flat-1) == 0 {
		args.shift = int32(bits.TrailingZeros(uint(b.Flat)))
	}
	return args
}

type unpackArgs struct {
	codes, table             uintptr
	scale, min               blocks
	dst                      mat
	n                        int64
	over                     float32
	bits, lowFirst, inPieces int32
}

// Unpack writes every element of a compressed matrix.
func (b *Backend) Unpack(a *kernels.Unpack) {
	args, blocks, shared := b.unpacking(a)
	b.launch("Unpack", "unpack", [2]int{blocks, 1}, 256, shared, args)
}

// unpacking is the argument of the kernel, its blocks and their shared memory.
func (b *Backend) unpacking(a *kernels.Unpack) (args *unpackArgs, blocks, shared int) {
	a.Check()
	n := a.Dst.Rows * a.Dst.Cols
	args = &unpackArgs{codes: at(a.Codes), table: at(a.Table), scale: blocksOf(a.Scale, a.Dst.Cols), min: blocksOf(a.Min, a.Dst.Cols), dst: matOf(a.Dst),
		n: int64(n), over: a.Over, bits: int32(a.Bits), lowFirst: flag(a.Low)}
	if inEights(a) && args.codes%uintptr(a.Bits) == 0 && args.dst.p%piece == 0 {
		args.inPieces = 1
		n /= 8
	}
	return args, b.walkers(n), 4 << a.Bits
}

// inEights reports whether eight elements from a multiple of eight on lie in one row and in one block.
func inEights(a *kernels.Unpack) bool {
	whole := a.Dst.Cols%8 == 0 && a.Dst.Stride%8 == 0
	for _, g := range []kernels.Blocks{a.Scale, a.Min} {
		whole = whole && g.Flat%8 == 0 && g.Across%8 == 0
	}
	return whole
}
