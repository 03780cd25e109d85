package cuda

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Where element (i, k) of a product's operand lies; src/product.h.
const (
	operandRows = iota
	operandColumns
	operandPatches
	operandTaps
	operandSpread
	operandTurned
)

type operand struct {
	p             uintptr
	stride, pitch int64
	kind          int32
	form          int32
}

type window struct {
	h, w, oh, ow                          int64
	in, out, kh, kw, stride, top, left, _ int32
}

type productArgs struct {
	a, b                  operand
	window                window
	m, n, k               int64
	starts                uintptr
	run, runs             int64
	c                     mat
	bias                  vec
	pre, gate, residual   mat
	gateRows, row0        int64
	alpha                 float32
	act, fold, accumulate int32
	listed, paired, _     int32
	few                   [16]int32
}

// The exact product's tile, and its shared memory.
const (
	exactTile   = 64
	exactShared = 2 * 32 * (exactTile + 1) * 4
)

// exactProduct computes in the arithmetic of package ref, on the fp32 units.
func (b *Backend) exactProduct(op string, math kernels.Math, p *productArgs) {
	if p.m == 0 || p.n == 0 {
		return
	}
	kernel := "product_f32"
	if math == kernels.MathBF16 {
		kernel = "product_bf16"
	}
	if name := p.kernel32(); math == kernels.MathF32 && name != "" {
		p.paired = flag(p.together(2))
		b.launch(op, name, [2]int{ceil(int(p.m), wideTile) * ceil(int(p.n), wideTile), 1}, 256, wideShared, p)
		return
	}
	b.launch(op, kernel, [2]int{ceil(int(p.m), exactTile) * ceil(int(p.n), exactTile), 1}, 256, exactShared, p)
}

// The tile of products in fp32 whose operands are whole pieces, and its shared memory; src/product32.cu.
const (
	wideTile   = 128
	wideShared = 2 * 2 * 16 * (wideTile + 4) * 4
)

// kernel32 is the kernel of src/product32.cu that takes a product of fp32, "" where none does.
func (p *productArgs) kernel32() string {
	if p.k == 0 || p.runs != 1 || p.starts != 0 || p.listed != 0 || p.fold != 0 || !p.a.quads(p.k, p.m, &p.window) || !p.b.quads(p.k, p.n, &p.window) {
		return ""
	}
	switch [2]int32{p.a.form, p.b.form} {
	case [2]int32{operandRows, operandRows}:
		return "product32_nt"
	case [2]int32{operandRows, operandColumns}:
		return "product32_nn"
	case [2]int32{operandPatches, operandRows}:
		return "conv32"
	}
	return ""
}

// quads reports whether an operand, of so many rows, is fp32 in whole pieces of four elements.
func (o operand) quads(k, rows int64, w *window) bool {
	if o.kind != int32(kernels.F32) || o.p%16 != 0 {
		return false
	}
	switch o.form {
	case operandRows:
		return k%4 == 0 && o.stride%4 == 0
	case operandColumns:
		return rows%4 == 0 && o.stride%4 == 0
	case operandPatches:
		return w.in%4 == 0
	}
	return false
}

func operandOf(m kernels.Mat, form int32) operand {
	return operand{p: at(m.Span), stride: int64(m.Stride), kind: int32(m.DType), form: form}
}

// Gemm computes every element.
func (b *Backend) Gemm(a *kernels.Gemm) {
	m, n, k := ref.GemmShape(a)
	right := a.B
	if a.W != nil {
		right = ref.PackedRows(a.W)
	}
	p := &productArgs{a: operandOf(a.A, operandRows), b: operandOf(right, operandRows), m: int64(m), n: int64(n), k: int64(k),
		run: int64(k), runs: 1, c: matOf(a.C), bias: vecOf(a.Bias), pre: matOf(a.Pre), gate: matOf(a.Gate), residual: matOf(a.Residual),
		gateRows: int64(max(a.GateRows, 1)), alpha: a.Alpha, act: int32(a.Act), accumulate: flag(a.Accumulate)}
	if a.Layout == kernels.TN {
		p.a.form = operandColumns
	}
	if a.Layout != kernels.NT {
		p.b.form = operandColumns
	}
	if p.alpha == 0 {
		p.alpha = 1
	}
	if b.hopperGradient(a, p) {
		return
	}
	if len(a.Segments) > 0 && m > 0 && n > 0 {
		p.fold, p.runs = 1, int64(len(a.Segments))
		b.list("Gemm", p, startsOf(a.Segments))
	}
	if a.Pair != nil {
		b.withPair(a, p)
		return
	}
	if b.libraryProduct(a, p) {
		return
	}
	if b.hopperProduct(a, p, nil) {
		return
	}
	b.product("Gemm", a.Math, p)
}

// list tells p where its runs start: few starts go with the launch, more into device memory.
func (b *Backend) list(op string, p *productArgs, starts []int64) {
	if len(starts) > len(p.few) || p.k > math.MaxInt32 {
		p.starts = b.small(op, int64s(starts))
		return
	}
	p.listed = 1
	for i, n := range starts {
		p.few[i] = int32(n)
	}
}

// startsOf are where segments start, and where the last one ends.
func startsOf(segments []int) []int64 {
	starts := make([]int64, len(segments)+1)
	for i, n := range segments {
		starts[i+1] = starts[i] + int64(n)
	}
	return starts
}

type packArgs struct{ x, y mat }

// Pack keeps a weight's rows in the type of its arithmetic.
func (b *Backend) Pack(w kernels.Mat, m kernels.Math) *kernels.Packed {
	p := &kernels.Packed{Math: m, N: w.Rows, K: w.Cols, Form: ref.FormRows}
	d := kernels.F32
	if m == kernels.MathBF16 {
		d = kernels.BF16
	}
	p.Buf = b.Alloc(w.Rows * w.Cols * d.Size())
	to := kernels.NewMat(kernels.Span{Buf: p.Buf, Len: w.Rows * w.Cols, DType: d}, w.Rows, w.Cols)
	b.elements("Pack", "pack", w.Rows*w.Cols, &packArgs{matOf(w), matOf(to)})
	return p
}

// PackConv keeps the weight as it is.
func (b *Backend) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	k := s.KH * s.KW * s.In
	if w.Len != s.Out*k {
		panic(fmt.Sprintf("kernels: PackConv of %d elements for a weight [%d,%d,%d,%d]", w.Len, s.Out, s.KH, s.KW, s.In))
	}
	p := b.Pack(kernels.NewMat(w, s.Out, k), m)
	p.Conv = s
	return p
}

// convOf is what the products of a convolution share.
func convOf(a *kernels.Conv) (p *productArgs, weight kernels.Span) {
	s := a.Shape
	oh, ow := s.OutSize(a.H, a.W)
	weight = a.Weight
	if a.Packed != nil {
		weight = ref.PackedRows(a.Packed).Span
	}
	return &productArgs{alpha: 1, gateRows: 1, runs: 1, window: window{h: int64(a.H), w: int64(a.W), oh: int64(oh), ow: int64(ow),
		in: int32(s.In), out: int32(s.Out), kh: int32(s.KH), kw: int32(s.KW), stride: int32(s.Stride), top: int32(s.Top), left: int32(s.Left)}}, weight
}

// runs cuts k as bf16 math wants it: a row of the window at a time.
func (p *productArgs) cut(m kernels.Math, k, rows int) {
	p.k, p.run, p.runs = int64(k), int64(k), 1
	if m == kernels.MathBF16 {
		p.run, p.runs = int64(k/rows), int64(rows)
	}
}

// Conv computes every pixel.
func (b *Backend) Conv(a *kernels.Conv) {
	s := a.Shape
	p, weight := convOf(a)
	pixels := a.N * int(p.window.oh) * int(p.window.ow)
	p.m, p.n = int64(pixels), int64(s.Out)
	p.cut(a.Math, s.KH*s.KW*s.In, s.KH)
	p.a = operand{p: at(a.X), kind: int32(a.X.DType), form: operandPatches}
	p.b = operand{p: at(weight), stride: p.k, kind: int32(weight.DType), form: operandRows}
	p.c, p.bias, p.act = mat{p: at(a.Y), stride: p.n, rows: int32(pixels), cols: int32(s.Out), kind: int32(a.Y.DType)}, vecOf(a.Bias), int32(a.Act)
	if !a.Residual.Empty() {
		p.residual = mat{p: at(a.Residual), stride: p.n, rows: int32(pixels), cols: int32(s.Out), kind: int32(a.Residual.DType)}
	}
	b.product("Conv", a.Math, p)
}

type convBiasArgs struct {
	dy, db         uintptr
	n, pixels, out int64
	kind           int32
	_              int32
}

// ConvBackward computes every gradient that is asked for.
func (b *Backend) ConvBackward(a *kernels.ConvBackward) {
	const op = "ConvBackward"
	s := a.Shape
	if !a.DX.Empty() {
		p, weight := convOf(&a.Conv)
		pixels := a.N * a.H * a.W
		p.m, p.n = int64(pixels), int64(s.In)
		p.cut(a.Math, s.KH*s.KW*s.Out, s.KH)
		p.a = operand{p: at(a.DY), kind: int32(a.DY.DType), form: operandSpread}
		p.b = operand{p: at(weight), kind: int32(weight.DType), form: operandTurned}
		p.c = mat{p: at(a.DX), stride: p.n, rows: int32(pixels), cols: int32(s.In), kind: int32(a.DX.DType)}
		b.product(op, a.Math, p)
	}
	p, _ := convOf(&a.Conv)
	pixels := int(p.window.oh * p.window.ow)
	if a.N == 0 {
		return
	}
	if !a.DBias.Empty() {
		b.columns(op, "conv_bias", s.Out, 1, &convBiasArgs{dy: at(a.DY), db: at(a.DBias), n: int64(a.N), pixels: int64(pixels), out: int64(s.Out), kind: int32(a.DY.DType)})
	}
	if !a.DWeight.Empty() {
		row := s.KH * s.KW * s.In
		p.m, p.n, p.k = int64(s.Out), int64(row), int64(a.N*pixels)
		p.run, p.runs, p.fold, p.accumulate = int64(pixels), int64(a.N), 1, 1
		p.a = operand{p: at(a.DY), stride: p.m, kind: int32(a.DY.DType), form: operandColumns}
		p.b = operand{p: at(a.X), kind: int32(a.X.DType), form: operandTaps}
		p.c = mat{p: at(a.DWeight), stride: p.n, rows: int32(s.Out), cols: int32(row), kind: int32(a.DWeight.DType)}
		b.product(op, a.Math, p)
	}
}
