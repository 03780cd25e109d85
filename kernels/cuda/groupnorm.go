package cuda

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

type groupNormArgs struct {
	x, y, dy, dx                      uintptr
	weight, bias                      vec
	mean, rstd, dweight, dbias        uintptr
	part, total, terms                uintptr
	n, hw, c, groups, block, blocks   int64
	epsilon                           float32
	act, xKind, yKind, dyKind, dxKind int32
}

func groupNormOf(a *kernels.GroupNorm, block int) *groupNormArgs {
	if a.Groups <= 0 || a.C%a.Groups != 0 {
		panic("kernels: GroupNorm: the channels do not divide into the groups")
	}
	return &groupNormArgs{x: at(a.X), y: at(a.Y), weight: vecOf(a.Weight), bias: vecOf(a.Bias), mean: at(a.Mean), rstd: at(a.Rstd),
		n: int64(a.N), hw: int64(a.HW), c: int64(a.C), groups: int64(a.Groups), block: int64(block), blocks: int64(ceil(a.HW, block)),
		epsilon: a.Eps, act: int32(a.Act), xKind: int32(a.X.DType), yKind: int32(a.Y.DType)}
}

// GroupNorm normalises every sample.
func (b *Backend) GroupNorm(a *kernels.GroupNorm) {
	const op = "GroupNorm"
	if a.N*a.HW*a.C == 0 {
		return
	}
	g := groupNormOf(a, ref.MomentBlock)
	statistics := a.N * a.Groups
	blocks := a.N * int(g.blocks)
	scratch := b.scratch(op, 4*2*blocks*a.C, 8*2*blocks*a.Groups, 4*statistics, 4*statistics)
	defer b.giveBack(scratch)
	g.part, g.total = scratch[0], scratch[1]
	if g.mean == 0 {
		g.mean = scratch[2]
	}
	if g.rstd == 0 {
		g.rstd = scratch[3]
	}
	b.columns(op, "group_moments", blocks*a.C, 1, g)
	b.columns(op, "group_blocks", blocks*a.Groups, 1, g)
	b.columns(op, "group_statistics", statistics, 1, g)
	b.elements(op, "group_apply", a.N*a.HW*a.C, g)
}

// GroupNormBackward computes every gradient.
func (b *Backend) GroupNormBackward(a *kernels.GroupNormBackward) {
	const op = "GroupNormBackward"
	if a.N*a.HW*a.C == 0 {
		return
	}
	g := groupNormOf(&a.GroupNorm, ref.PixelBlock)
	g.dy, g.dyKind, g.dx, g.dxKind = at(a.DY), int32(a.DY.DType), at(a.DX), int32(a.DX.DType)
	g.dweight, g.dbias = at(a.DWeight), at(a.DBias)
	blocks := a.N * int(g.blocks)
	scratch := b.scratch(op, 4*2*blocks*a.C, 8*2*a.N*a.C, 4*2*a.N*a.Groups)
	defer b.giveBack(scratch)
	g.part, g.total, g.terms = scratch[0], scratch[1], scratch[2]
	b.columns(op, "group_slopes", blocks*a.C, 1, g)
	b.columns(op, "group_channels", a.N*a.C, 1, g)
	if g.dweight != 0 || g.dbias != 0 {
		b.columns(op, "group_weights", a.C, 1, g)
	}
	if g.dx != 0 {
		b.columns(op, "group_terms", a.N*a.Groups, 1, g)
		b.elements(op, "group_backward", a.N*a.HW*a.C, g)
	}
}
