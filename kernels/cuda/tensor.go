package cuda

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Products on tensor cores. Operands are read as they lie - bf16 or fp32, along k or across, a convolution's
// pictures included - where their pieces of 8 elements are whole pieces of memory; others are gathered into
// scratch first. Rows whose operand is gathered are taken in parts whose gathered form stays below
// mostGathered; a row's result depends neither on its part nor on how its operands are read.

// mostGathered is in bytes.
const mostGathered = 256 << 20

// A tile is what a block computes, rows x cols, in slices of depth of k, so many of them in shared memory.
type tile struct {
	name                               string
	rows, cols, depth, stages, threads int64
	effort                             float64
	plain                              bool // for operands without pictures alone
}

// The tiles of src/tensor.cu. Their choice changes no bit, so it may depend on anything. effort is what
// a tile's multiplications cost beside the first's: the smaller, the more reads from shared memory for
// each (by warps of 64 x 32, 32 x 32 and 16 x 16).
var tiles = []tile{
	{name: "_128", rows: 128, cols: 128, depth: 32, stages: 4, threads: 256, effort: 1},
	{name: "_64", rows: 64, cols: 64, depth: 64, stages: 3, threads: 128, effort: 1.25},
	{name: "_32", rows: 32, cols: 32, depth: 64, stages: 5, threads: 128, effort: 2, plain: true},
}

// reading is how products read their operands, and what they may take for it.
type reading struct {
	tiles    []tile
	most     int64                                // bytes that are gathered at a time
	inPlace  func(o operand, p *productArgs) bool // operands that are read as they lie
	gathered int                                  // operands that were gathered
	// No kernels of adapters, for tests; products by them.
	tilesAlone bool
	adapters   int
}

// shared is the shared memory of a block: slices as they come and, of fp32, two rounded ones.
func (t *tile) shared(p *productArgs) int {
	bytes := int64(0)
	for _, o := range []struct {
		of   operand
		side int64
	}{{p.a, t.rows}, {p.b, t.cols}} {
		if slice := o.side * t.depth * 2; o.of.kind == int32(kernels.F32) {
			bytes += slice * (2*t.stages + 2)
		} else {
			bytes += slice * t.stages
		}
	}
	return int(bytes)
}

func (t *tile) blocks(p *productArgs) int64 {
	return (p.m + t.rows - 1) / t.rows * ((p.n + t.cols - 1) / t.cols)
}

// tileFor is the tile with which the busiest multiprocessor has the least to do, nil if this device has too
// little shared memory for any.
func (b *Backend) tileFor(p *productArgs) (best *tile) {
	least := 0.0
	for i := range b.reading.tiles {
		t := &b.reading.tiles[i]
		if t.plain && p.pictures() || t.shared(p) > b.device.Shared {
			continue
		}
		most := (t.blocks(p) + int64(b.device.Processors) - 1) / max(int64(b.device.Processors), 1)
		if cost := float64(most*t.rows*t.cols) * t.effort; best == nil || cost < least {
			best, least = t, cost
		}
	}
	return best
}

// pictures says that the product reads a convolution's operands as they lie.
func (p *productArgs) pictures() bool {
	return p.a.form == operandPatches || p.a.form == operandSpread || p.b.form == operandTaps
}

// kernel is the one for how operands lie.
func (p *productArgs) kernel() string {
	switch {
	case p.b.form == operandTaps:
		return "conv_weight"
	case p.b.form == operandTurned:
		return "conv_input"
	case p.a.form == operandPatches:
		return "conv"
	case p.a.form == operandColumns:
		return "product_tn"
	case p.b.form == operandColumns:
		return "product_nn"
	}
	return "product_nt"
}

// piecewise reports whether an operand of p can be read in pieces of 8 elements.
func (o operand) piecewise(p *productArgs) bool {
	size, w := int64(kernels.DType(o.kind).Size()), &p.window
	whole := func(n int64) bool { return n*size%16 == 0 }
	if o.p%16 != 0 {
		return false
	}
	switch o.form {
	case operandRows:
		return whole(o.stride) && (p.runs == 1 || whole(p.run))
	case operandColumns:
		return whole(o.stride)
	case operandSpread:
		return w.out%8 == 0
	}
	return w.in%8 == 0 // patches, taps, turned
}

// plainer is a convolution by 1x1 as the product of matrices that it is.
func (p *productArgs) plainer() {
	w := &p.window
	if w.kh != 1 || w.kw != 1 || w.stride != 1 || w.top != 0 || w.left != 0 || w.oh != w.h || w.ow != w.w {
		return
	}
	for _, o := range []*operand{&p.a, &p.b} {
		switch o.form {
		case operandPatches:
			o.form, o.stride = operandRows, int64(w.in)
		case operandSpread:
			o.form, o.stride = operandRows, int64(w.out)
		case operandTaps, operandTurned:
			o.form, o.stride = operandColumns, int64(w.in)
		}
	}
}

// tensorProduct computes p.
func (b *Backend) tensorProduct(op string, p *productArgs) {
	if p.m == 0 || p.n == 0 {
		return
	}
	q := *p
	q.plainer()
	q.a.pitch, q.b.pitch = q.run, q.run
	left, right := b.reading.inPlace(q.a, &q), b.reading.inPlace(q.b, &q)
	if left && right && b.tileFor(&q) == nil { // two operands of fp32, where a block may have 99 KiB
		right = false
	}
	if q.a.form == operandSpread && left != right { // there is no kernel for the one without the other
		left, right = false, false
	}
	from := q
	if !right {
		defer b.giveBack(b.gather(op, &from, from.b, &q.b, 0, q.n))
	}
	rows := q.m
	if !left {
		rows = max(wholeTile, b.reading.most/2/(padded(q.run)*q.runs)/wholeTile*wholeTile)
		if q.starts != 0 || q.listed != 0 {
			rows = max(wholeTile, b.reading.most/2/q.k/wholeTile*wholeTile)
		}
	}
	for row := int64(0); row < p.m; row += rows {
		part := q
		part.row0, part.m = row, min(rows, p.m-row)
		var copied []uintptr
		if !left {
			copied = b.gather(op, &from, from.a, &part.a, row, part.m)
		}
		b.tensorLaunch(op, &part)
		b.giveBack(copied)
	}
}

func (b *Backend) tensorLaunch(op string, p *productArgs) {
	if b.adapterProduct(op, p) {
		return
	}
	t := b.tileFor(p)
	p.paired = flag(p.together(2))
	b.launch(op, p.kernel()+t.name, [2]int{int(t.blocks(p)), 1}, int(t.threads), t.shared(p), p)
}

// together says that so many neighbours in a row of everything beside the operands lie as one.
func (p *productArgs) together(n int64) bool {
	whole := func(m mat) bool {
		return m.p == 0 || m.stride%n == 0 && m.p%uintptr(n*int64(kernels.DType(m.kind).Size())) == 0
	}
	return p.n%n == 0 && whole(p.c) && whole(p.pre) && whole(p.gate) && whole(p.residual) && whole(mat{p: p.bias.p, kind: p.bias.kind})
}

type gatherOperandArgs struct {
	x                     operand
	window                window
	y                     uintptr
	row0, rows, k, stride int64
	run                   int64
	columns, _            int32
}

// padded is n rounded up to the least depth of a slice.
func padded(n int64) int64 { return (n + 31) / 32 * 32 }

// gather writes rows of an operand of p into scratch, which to then describes: along k where it lies
// along k, and across where it lies across.
func (b *Backend) gather(op string, p *productArgs, from operand, to *operand, row0, rows int64) []uintptr {
	if slices.Contains([]int32{operandColumns, operandTaps, operandTurned}, from.form) {
		g := gatherOperandArgs{k: p.k, run: p.k, stride: (rows + 7) / 8 * 8, columns: 1}
		*to = operand{stride: g.stride, form: operandColumns}
		return b.gatherInto(op, p, &g, from, to, row0, rows, g.k*g.stride)
	}
	return b.gatherRows(op, p, from, to, row0, rows)
}

// gatherRows writes them along k, each run padded with zeros to a slice.
func (b *Backend) gatherRows(op string, p *productArgs, from operand, to *operand, row0, rows int64) []uintptr {
	g := gatherOperandArgs{run: p.run, k: padded(p.run) * p.runs}
	g.stride = g.k
	*to = operand{stride: g.stride, pitch: padded(p.run), form: operandRows}
	return b.gatherInto(op, p, &g, from, to, row0, rows, rows*g.stride)
}

func (b *Backend) gatherInto(op string, p *productArgs, g *gatherOperandArgs, from operand, to *operand, row0, rows, size int64) []uintptr {
	b.reading.gathered++
	scratch := b.scratch(op, int(2*size))
	to.p, to.kind = scratch[0], int32(kernels.BF16)
	g.x, g.window, g.y, g.row0, g.rows = from, p.window, scratch[0], row0, rows
	b.launch(op, "gather_operand", [2]int{ceil(int(rows), 32) * ceil(int(g.k), 32), 1}, 256, 32*33*2, g)
	return scratch
}

// Attention on tensor cores reads bf16 whose rows start at multiples of 16 bytes. Operands that are
// something else, or lie otherwise, are copied first.

// mostHead is the largest head dimension that the tensor cores' kernels have rows for.
const mostHead = 128

// onTensorCores reports whether the tensor cores' kernels serve an attention.
func (b *Backend) onTensorCores(a *kernels.Attention) bool {
	return !b.exact && a.Math == kernels.MathBF16 && a.Q.D <= mostHead && a.V.D <= mostHead
}

// tensorAttention launches the kernel for the head dimension: blocks of 128 threads, with shared
// memory for some rows.
func (b *Backend) tensorAttention(op, pass string, a *kernels.Attention, blocks, rows int, p *attentionArgs) {
	d := 64
	if a.Q.D > d || a.V.D > d {
		d = mostHead
	}
	b.launch(op, fmt.Sprintf("attention_tensor%s_%d", pass, d), [2]int{blocks, 1}, 128, rows*d*2, p)
}

// source is an operand, and what the kernel reads of it.
type source struct {
	to *heads
	x  kernels.Heads
}

// tensorHeads makes operands readable, and returns the scratch of those that were copied.
func (b *Backend) tensorHeads(op string, sources ...source) (scratch []uintptr) {
	for _, s := range sources {
		to, x := s.to, s.x
		if x.Empty() || x.DType == kernels.BF16 && x.D%8 == 0 && x.SS%8 == 0 && x.SH%8 == 0 && x.SB%8 == 0 && to.p%16 == 0 && (!b.hopper.attention.use || to.mappable()) {
			continue
		}
		wide := (x.D + 7) / 8 * 8
		n := x.B * x.S * x.H * wide
		piece := b.scratch(op, 2*n)
		scratch = append(scratch, piece...)
		span := kernels.Span{Buf: &kernels.Buffer{Addr: piece[0], Bytes: 2 * n}, Len: n, DType: kernels.BF16}
		if wide != x.D {
			b.Fill(span, 0)
		}
		y := kernels.Heads{Span: span, B: x.B, S: x.S, H: x.H, D: x.D, SB: x.S * x.H * wide, SS: x.H * wide, SH: wide}
		b.Copy(&kernels.Copy{Src: x.Span, Dst: span, Shape: [5]int{1, x.B, x.S, x.H, x.D},
			SrcStride: [5]int{0, x.SB, x.SS, x.SH, 1}, DstStride: [5]int{0, y.SB, y.SS, y.SH, 1}})
		*to = headsOf(y)
	}
	return scratch
}
