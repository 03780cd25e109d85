package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// Blocks lends the packing and the block kernels of one arithmetic to operations that
// put other work between their products. A product is C[rows][32] (+)= A·B, with A
// packed row by row and B in panels of 32 columns; all memory is the caller's.
type Blocks struct {
	u    unit
	turn func(dst, src unsafe.Pointer)
}

// BlocksOf are those of a path; false where it has none.
func BlocksOf(path isa.Path, m kernels.Math) (Blocks, bool) {
	u, ok := unitsOf(path)[m]
	return Blocks{lentBy(path, m, u), turnOf(path)}, ok
}

// Panel is the number of columns of a panel of B, and of C.
const Panel = panel

// Scratch is the memory that packing may need.
const Scratch = tmpBytes

// RowBytes is the distance of A's rows over k; PanelBytes the size of a panel.
func (b Blocks) RowBytes(k int) int   { return b.u.rowBytes(roundUp(k, 32)) }
func (b Blocks) PanelBytes(k int) int { return b.u.panelBytes(k) }

// BlockBytes is the memory of a packed A.
func (b Blocks) BlockBytes(rows, k int) int { return roundUp(rows, 16) * b.RowBytes(k) }

// Lines are the rows of one head of one sample, or its columns where across is set.
type Lines struct{ o operand }

// HeadLines views head h of sample b.
func HeadLines(x kernels.Heads, b, h int, across bool) Lines {
	n := x.DType.Size()
	o := operand{dtype: x.DType, size: n, stride: x.SS * n, across: across}
	if raw := x.Raw(); x.S > 0 && len(raw) > 0 {
		o.p = unsafe.Pointer(&raw[x.At(b, 0, h)*n])
	}
	return Lines{o}
}

// PackRows packs lines [row, row+rows) over k as rows of A.
func (b Blocks) PackRows(dst, scratch unsafe.Pointer, x Lines, row, rows, k int) {
	if rows > 0 && k > 0 {
		b.u.packA(dst, scratch, b.RowBytes(k), x.o, row, rows, 0, k, 0)
	}
}

// PackPanel packs up to 32 lines over k as a panel of B.
func (b Blocks) PackPanel(dst, scratch unsafe.Pointer, x Lines, line, lines, k int) {
	if lines > 0 && k > 0 {
		b.u.packB(dst, scratch, x.o, line, lines, 0, k)
	}
}

// Job is the argument of Run; who calls keeps its addresses alive.
type Job struct {
	b      block
	Narrow bool // only columns 0 to 15 of C are wanted
}

// Run is C (+)= A·B over k from at on; c and panel are where they begin, a begins at
// its k = 0. Where add is not set C starts from zero.
func (b Blocks) Run(j *Job, c, a, panel unsafe.Pointer, rowBytes, rows, at, k int, add bool) {
	if rows == 0 || k == 0 {
		return
	}
	j.b = block{c: uintptr(c), a: uintptr(a), b: uintptr(panel), lda: uintptr(rowBytes), narrow: j.Narrow}
	if add {
		j.b.start = 1
	}
	j.b.ahead = uintptr(c)
	b.u.run(&j.b, rows, at, k)
}

// Store writes rows of C, up to 32 columns of them, to rows of x from row on, columns
// from col on. zeros are 32 float32.
func (b Blocks) Store(x Lines, row, rows, col, cols int, c, zeros unsafe.Pointer) {
	b.u.passes().store[x.o.dtype](c, x.o.at(row, col), x.o.stride, rows, bits(cols), zeros)
}

// Turn writes the transpose of a block of 32 x 32 fp32.
func (b Blocks) Turn(dst, src unsafe.Pointer) { b.turn(dst, src) }

func turnGo(dst, src unsafe.Pointer) {
	to, from := (*[panel * panel]float32)(dst), (*[panel * panel]float32)(src)
	for i := range panel {
		for j := range panel {
			to[i*panel+j] = from[j*panel+i]
		}
	}
}

// Add is c + t, rows of 32.
func (b Blocks) Add(c, t unsafe.Pointer, rows int) { b.u.passes().addScaled(c, t, rows, 1) }
