package cuda

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

type normArgs struct {
	x, y           mat
	weight, bias   vec
	scale, shift   mat
	mean, rstd     vec
	dy, dx         mat
	dweight, dbias vec
	dscale, dshift mat
	per            int64
	epsilon, inv   float32
	layer, warps   int32
}

func normOf(a *kernels.Norm) *normArgs {
	n := a.X.Cols
	if !a.Weight.Empty() && a.Weight.Len < n || !a.Bias.Empty() && a.Bias.Len < n || (!a.Scale.Empty() || !a.Shift.Empty()) && a.RowsPerSample <= 0 {
		panic(fmt.Sprintf("kernels: Norm of %d columns: a parameter is too short, or RowsPerSample is %d", n, a.RowsPerSample))
	}
	return &normArgs{x: matOf(a.X), y: matOf(a.Y), weight: vecOf(a.Weight), bias: vecOf(a.Bias), scale: matOf(a.Scale), shift: matOf(a.Shift),
		mean: vecOf(a.Mean), rstd: vecOf(a.Rstd), per: int64(a.RowsPerSample), epsilon: a.Eps, inv: 1 / float32(n), layer: flag(a.Kind == kernels.LayerNorm)}
}

// Norm normalises every row.
func (b *Backend) Norm(a *kernels.Norm) {
	args := normOf(a)
	b.normRows("Norm", "norm", args, 1, args.x, args.y)
}

// shortRow is the longest row of eight lanes' registers; src/row.h.
const shortRow = 128

// normRows launches a kernel over rows, in the form that reads a row of whole pieces once; kept is how many numbers of
// an element it keeps.
func (b *Backend) normRows(op, kernel string, args *normArgs, kept int, read ...mat) {
	rows, cols := int(args.x.rows), int(args.x.cols)
	whole := cols%8 == 0 && args.weight.p%piece == 0 && args.bias.p%piece == 0
	for _, m := range append(read, args.scale, args.shift) {
		whole = whole && m.p%piece == 0 && (m.p == 0 || m.stride%8 == 0)
	}
	args.warps = 1 // of a row: more where rows alone would leave processors with little to do
	switch n := b.device.Processors; {
	case rows <= 4*n && kept == 1:
		args.warps = 4
	case rows <= 40*n:
		args.warps = 2
	}
	together := 4 / int(args.warps)
	switch shared := together * 4 * cols * kept; {
	case whole && cols <= shortRow:
		b.launch(op, kernel+"_short", [2]int{ceil(rows, 16), 1}, 128, 0, args)
	case whole && shared <= b.device.Shared:
		b.launch(op, kernel+"_long", [2]int{ceil(rows, together), 1}, 128, shared, args)
	default:
		b.rows(op, kernel, rows, args)
	}
}

// NormBackward computes every gradient.
func (b *Backend) NormBackward(a *kernels.NormBackward) {
	args := normOf(&a.Norm)
	args.dy, args.dx, args.dweight, args.dbias = matOf(a.DY), matOf(a.DX), vecOf(a.DWeight), vecOf(a.DBias)
	args.dscale, args.dshift = matOf(a.DScale), matOf(a.DShift)
	if !a.DX.Empty() {
		b.normRows("NormBackward", "norm_backward", args, 2, args.x, args.dy, args.dx)
	}
	if !a.DScale.Empty() || !a.DShift.Empty() {
		b.columns("NormBackward", "norm_backward_modulation", a.X.Cols, ref.Samples(a.X.Rows, a.RowsPerSample), args)
	}
	if !a.DWeight.Empty() || !a.DBias.Empty() {
		b.columns("NormBackward", "norm_backward_weights", a.X.Cols, 1, args)
	}
}

// Rows from wideRow on have a block each; src/softmax.cu.
const (
	wideRow       = 4096
	wideRowShared = 4 * 4096 * 4
)

// wideRows launches a kernel over rows, a warp each or a block.
func (b *Backend) wideRows(op, kernel string, x kernels.Mat, args any) {
	if x.Cols < wideRow || wideRowShared > b.device.Shared {
		b.rows(op, kernel, x.Rows, args)
		return
	}
	b.launch(op, kernel+"_wide", [2]int{x.Rows, 1}, 512, wideRowShared, args)
}

type softmaxArgs struct{ x, dy, y mat }

// Softmax computes every row.
func (b *Backend) Softmax(a *kernels.Softmax) {
	b.wideRows("Softmax", "softmax", a.X, &softmaxArgs{x: matOf(a.X), y: matOf(a.Y)})
}

// SoftmaxBackward computes every row.
func (b *Backend) SoftmaxBackward(a *kernels.SoftmaxBackward) {
	b.rows("SoftmaxBackward", "softmax_backward", a.Y.Rows, &softmaxArgs{x: matOf(a.Y), dy: matOf(a.DY), y: matOf(a.DX)})
}

type gatherArgs struct {
	x, dx                          mat
	index, out, lse, entropy, dout uintptr
	inv                            float32
	_                              int32
}

func gatherOf(a *kernels.LogSoftmaxGather) *gatherArgs {
	return &gatherArgs{x: matOf(a.X), index: at(a.Index), out: at(a.Out), lse: at(a.LSE), entropy: at(a.Entropy), inv: ref.InverseTemperature(a)}
}

// LogSoftmaxGather computes every row.
func (b *Backend) LogSoftmaxGather(a *kernels.LogSoftmaxGather) {
	b.wideRows("LogSoftmaxGather", "log_softmax_gather", a.X, gatherOf(a))
}

// LogSoftmaxGatherBackward computes every row.
func (b *Backend) LogSoftmaxGatherBackward(a *kernels.LogSoftmaxGatherBackward) {
	args := gatherOf(&a.LogSoftmaxGather)
	args.dout, args.dx = at(a.DOut), matOf(a.DX)
	b.elements("LogSoftmaxGatherBackward", "log_softmax_gather_backward", a.X.Rows*a.X.Cols, args)
}

type drawArgs struct {
	x                            mat
	banned, seen, uniform, given uintptr
	token, logProb, entropy      uintptr
	inverse, penalty, least      float32
	drop                         uint32
	mostDrawn, topP, words, _    int32
}

// Draw draws every row's token, a block each.
func (b *Backend) Draw(a *kernels.Draw) {
	s := ref.DrawingOf(a)
	args := &drawArgs{x: matOf(a.X), banned: at(a.Banned), seen: at(a.Seen), uniform: at(a.Uniform), given: at(a.Given),
		token: at(a.Token), logProb: at(a.LogProb), entropy: at(a.Entropy), inverse: s.Inverse, penalty: s.Penalty, least: a.MinP,
		drop: s.Drop, mostDrawn: int32(s.Most), topP: flag(s.TopP), words: int32(kernels.Words(a.X.Cols))}
	const sums, found = 7 * 16 * 8, 2*8 + 4*4
	b.launch("Draw", "draw", [2]int{a.X.Rows, 1}, 512, sums+found+4*(2*ref.DrawBlocks(a.X.Cols)+ref.DrawBlock), args)
}

type embeddingArgs struct {
	table, y mat
	index    uintptr
}

// Embedding looks up every row.
func (b *Backend) Embedding(a *kernels.Embedding) {
	b.elements("Embedding", "embedding", a.Y.Rows*a.Y.Cols, &embeddingArgs{matOf(a.Table), matOf(a.Y), at(a.Index)})
}

// EmbeddingBackward adds rows in order, a thread a column.
func (b *Backend) EmbeddingBackward(a *kernels.EmbeddingBackward) {
	b.columns("EmbeddingBackward", "embedding_backward", a.DY.Cols, 1, &embeddingArgs{matOf(a.DTable), matOf(a.DY), at(a.Index)})
}

type mixArgs struct {
	x, y, b, g, dy, dx, db, dg mat
	per                        int64
	op                         int32
	_                          int32
}

func perSample(op string, per, rows int) int64 {
	if per <= 0 && rows > 0 {
		panic(fmt.Sprintf("kernels: %s: RowsPerSample is %d", op, per))
	}
	return int64(per)
}

// Modulate computes every row.
func (b *Backend) Modulate(a *kernels.Modulate) {
	b.elements("Modulate", "modulate", a.X.Rows*a.X.Cols, &mixArgs{x: matOf(a.X), y: matOf(a.Y), b: matOf(a.Scale), g: matOf(a.Shift), per: perSample("Modulate", a.RowsPerSample, a.X.Rows)})
}

// ModulateBackward computes every sample.
func (b *Backend) ModulateBackward(a *kernels.ModulateBackward) {
	const op = "ModulateBackward"
	args := &mixArgs{x: matOf(a.X), b: matOf(a.Scale), dy: matOf(a.DY), dx: matOf(a.DX), db: matOf(a.DScale), dg: matOf(a.DShift),
		per: perSample(op, a.RowsPerSample, a.DY.Rows), op: 1}
	if a.DScale.Empty() && a.DShift.Empty() {
		b.elements(op, "mix_through", a.DX.Rows*a.DX.Cols, args)
		return
	}
	b.columns(op, "modulate_backward", a.DY.Cols, ref.Samples(a.DY.Rows, a.RowsPerSample), args)
}

// Gated computes every row.
func (b *Backend) Gated(a *kernels.Gated) {
	b.elements("Gated", "gate", a.X.Rows*a.X.Cols, &mixArgs{x: matOf(a.X), y: matOf(a.Y), b: matOf(a.Residual), g: matOf(a.Gate), per: perSample("Gated", a.RowsPerSample, a.X.Rows)})
}

// GatedBackward computes every sample.
func (b *Backend) GatedBackward(a *kernels.GatedBackward) {
	const op = "GatedBackward"
	args := &mixArgs{x: matOf(a.X), g: matOf(a.Gate), dy: matOf(a.DY), dx: matOf(a.DX), dg: matOf(a.DGate), per: perSample(op, a.RowsPerSample, a.DY.Rows)}
	if a.DGate.Empty() {
		b.elements(op, "mix_through", a.DX.Rows*a.DX.Cols, args)
		return
	}
	b.columns(op, "gate_backward", a.DY.Cols, ref.Samples(a.DY.Rows, a.RowsPerSample), args)
}

// GLU computes every row.
func (b *Backend) GLU(a *kernels.GLU) {
	b.elements("GLU", b.activation("glu", a.Act, a.Y.Span), a.X.Rows*a.X.Cols, &mixArgs{x: matOf(a.X), g: matOf(a.Gate), y: matOf(a.Y), op: int32(a.Act)})
}

// GLUBackward computes every row.
func (b *Backend) GLUBackward(a *kernels.GLUBackward) {
	b.elements("GLUBackward", b.activation("glu_backward", a.Act, a.DX.Span, a.DGate.Span), a.DY.Rows*a.DY.Cols, &mixArgs{x: matOf(a.X), g: matOf(a.Gate), dy: matOf(a.DY), dx: matOf(a.DX), dg: matOf(a.DGate), op: int32(a.Act)})
}

type ropeArgs struct {
	x, y            heads
	cos, sin        mat
	halves, inverse int32
}

// Rope turns every token.
func (b *Backend) Rope(a *kernels.Rope) {
	args := &ropeArgs{x: headsOf(a.X), y: headsOf(a.Y), cos: matOf(a.Cos), sin: matOf(a.Sin), halves: flag(a.Kind == kernels.RopeHalves), inverse: flag(a.Inverse)}
	heads, turned := a.X.B*a.X.S*a.X.H, a.Cos.Cols
	if !args.inPieces() {
		b.elements("Rope", "rope", heads*(a.X.D-turned), args)
		return
	}
	pieces := (a.X.D - 2*turned) / 8
	if args.halves != 0 {
		pieces += turned / 8
	} else {
		pieces += turned / 4
	}
	b.elements("Rope", "rope_pieces", heads*pieces, args)
}

// inPieces reports whether a head is whole pieces of eight elements, and so are the angles of each.
func (a *ropeArgs) inPieces() bool {
	whole := a.x.d%8 == 0 && a.cos.cols%4 == 0 && (a.halves == 0 || a.cos.cols%8 == 0)
	for _, x := range []heads{a.x, a.y} {
		whole = whole && x.p%piece == 0 && x.sb%8 == 0 && x.ss%8 == 0 && x.sh%8 == 0
	}
	for _, m := range []mat{a.cos, a.sin} {
		whole = whole && m.kind == int32(kernels.F32) && m.p%piece == 0 && m.stride%4 == 0
	}
	return whole
}

// outputs is how many network outputs a row of a solver may combine.
const outputs = 12

type solverArgs struct {
	x, noise, next, mean mat
	out                  [outputs]mat
	coefficients, square uintptr
	count, given         int32
}

// Row computes every sample, a warp each.
func (b *Backend) Row(a *kernels.Row) {
	if len(a.Out) > outputs {
		panic(fmt.Sprintf("kernels: Row of %d outputs; at most %d", len(a.Out), outputs))
	}
	args := &solverArgs{x: matOf(a.X), noise: matOf(a.Noise), next: matOf(a.Next), mean: matOf(a.Mean), square: at(a.Square),
		count: int32(len(a.Out)), given: flag(a.Given)}
	var coef []byte
	number := func(x []float32, s int) {
		v := float32(0)
		if s < len(x) {
			v = x[s]
		}
		coef = binary.LittleEndian.AppendUint32(coef, math.Float32bits(v))
	}
	for s := range a.X.Rows {
		number(a.A, s)
		number(a.C, s)
		for k, out := range a.Out {
			args.out[k] = matOf(out)
			number(a.B[k], s)
		}
	}
	args.coefficients = b.small("Row", coef)
	b.rows("Row", "solver", a.X.Rows, args)
}

type reduceArgs struct {
	x, y mat
	out  uintptr
	op   int32
	_    int32
}

// Reduce computes every row, a warp each.
func (b *Backend) Reduce(a *kernels.Reduce) {
	b.rows("Reduce", "reduce", a.X.Rows, &reduceArgs{x: matOf(a.X), y: matOf(a.Y), out: at(a.Out), op: int32(a.Op)})
}

type sumRowsArgs struct {
	x             mat
	out, segments uintptr
	count         int64
	accumulate    int32
	_             int32
}

// SumRows computes every column.
func (b *Backend) SumRows(a *kernels.SumRows) {
	args := &sumRowsArgs{x: matOf(a.X), out: at(a.Out), count: 1, accumulate: flag(a.Accumulate)}
	if len(a.Segments) > 0 {
		lengths := make([]int64, len(a.Segments))
		for i, n := range a.Segments {
			lengths[i] = int64(n)
		}
		args.count, args.segments = int64(len(lengths)), b.small("SumRows", int64s(lengths))
	}
	b.columns("SumRows", "sum_rows", a.X.Cols, 1, args)
}

func int64s(x []int64) []byte {
	out := make([]byte, 0, 8*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint64(out, uint64(v))
	}
	return out
}
