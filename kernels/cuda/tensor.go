package cuda

import "github.com/darkroom-rl/darkroom/kernels"

// Products on tensor cores: both operands as rows of bf16 with k contiguous (gathered into scratch
// where they are not so already), then one kernel. Rows are taken in pieces whose gathered form
// stays below mostGathered; a row's result does not depend on its piece.

const (
	tensorTile   = 128
	tensorShared = 3 * 2 * tensorTile * 32 * 2
	mostGathered = 256 << 20 // bytes
)

type gatherOperandArgs struct {
	x              operand
	window         window
	y              uintptr
	row0, rows, k  int64
	starts, padded uintptr
	run, runs      int64
}

// padded is n rounded up to the depth of a slice.
func padded(n int64) int64 { return (n + 31) / 32 * 32 }

// direct reports whether an operand of p can be read as it lies.
func (o operand) direct(p *productArgs) bool {
	return o.form == operandRows && o.kind == int32(kernels.BF16) && p.runs == 1 && p.k%8 == 0 && o.stride%8 == 0 && o.p%16 == 0
}

// tensorProduct computes p; lengths are those of its runs, where they differ.
func (b *Backend) tensorProduct(op string, p *productArgs, lengths []int) {
	if p.m == 0 || p.n == 0 {
		return
	}
	q := *p
	g := gatherOperandArgs{window: p.window, run: p.run, runs: p.runs}
	if lengths != nil {
		starts := make([]int64, len(lengths)+1)
		for i, n := range lengths {
			starts[i+1] = starts[i] + padded(int64(n))
		}
		q.k = starts[len(lengths)]
		g.starts, g.padded = p.starts, b.small(op, int64s(starts))
		q.starts = g.padded
	} else {
		q.run = padded(p.run)
		q.k = q.run * p.runs
	}
	kernel := "product_tensor"
	if p.fold != 0 {
		kernel = "product_tensor_fold"
	}
	// An operand that is read as it lies ends where k ends; zeros beyond are the other's as well.
	wide, left, right := q.k, p.a.direct(p), p.b.direct(p)
	if left || right {
		q.k = p.k
	}
	if !right {
		defer b.giveBack(b.gather(op, &g, p.b, &q.b, 0, p.n, wide))
	}
	rows := p.m
	if !left {
		rows = max(tensorTile, b.mostGathered/2/wide/tensorTile*tensorTile)
	}
	for row := int64(0); row < p.m; row += rows {
		part := q
		part.row0, part.m = row, min(rows, p.m-row)
		if left {
			b.tensorLaunch(op, kernel, &part)
			continue
		}
		scratch := b.gather(op, &g, p.a, &part.a, row, part.m, wide)
		b.tensorLaunch(op, kernel, &part)
		b.giveBack(scratch)
	}
}

// gather writes rows of an operand into scratch, which to then describes.
func (b *Backend) gather(op string, g *gatherOperandArgs, from operand, to *operand, row0, rows, k int64) []uintptr {
	scratch := b.scratch(op, int(2*rows*k))
	args := *g
	args.x, args.y, args.row0, args.rows, args.k = from, scratch[0], row0, rows, k
	*to = operand{p: scratch[0], stride: k, kind: int32(kernels.BF16), form: operandRows}
	b.launch(op, "gather_operand", [2]int{ceil(int(rows), 32) * int(k/32), 1}, 256, 32*33*2, &args)
	return scratch
}

func (b *Backend) tensorLaunch(op, kernel string, p *productArgs) {
	b.launch(op, kernel, [2]int{ceil(int(p.m), tensorTile) * ceil(int(p.n), tensorTile), 1}, 256, tensorShared, p)
}
