package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// unit is one arithmetic on one path.
type unit interface {
	// form marks the layout of its panels in a kernels.Packed.
	form() int
	// step is the multiple that k is padded to in packed memory: samples begin at multiples of it.
	step() int
	// grain is the divisor of run's at, and of its k where A is not padded.
	grain() int
	// rowBytes is the distance of rows of a packed block of A over k (a multiple of
	// step); a block of A has rows rounded up to 16.
	rowBytes(k int) int
	// panelBytes is the size of a panel of B over k.
	panelBytes(k int) int
	// rows is the divisor of row blocks where they can have one, and chunk the k that one run takes where there are
	// several row blocks.
	rows() int
	chunk() int

	// reads says whether run takes rows of op(A) where they lie, so that nobody packs them.
	reads(a operand) bool
	// packA packs rows of op(A), k numbers from k0 on, at a block's k = at.
	packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int)
	// packB packs columns of op(B), k numbers from k0 on; p is where they begin.
	packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int)
	// unpack reads the 32 columns at k of a panel, as fp32 or bf16.
	unpack(dst, p unsafe.Pointer, k int)
	// run is C[rows][32] (+)= A·B over k from at on, with b's addresses of C, of the
	// block of A and of the panel's k. b is the unit's to change.
	run(b *block, rows, at, k int)

	// direct says whether run can finish blocks itself, for a C of a type.
	direct(d kernels.DType) bool

	// passes finish blocks of C.
	passes() *passes
}

// block is the argument of a unit's run and of its block kernels. Its addresses are
// plain numbers, since kernels end up past the memory that they walk over; who calls
// run keeps that alive.
type block struct {
	c          uintptr // rows of 32 float32
	a          uintptr // packed A, first row, first k
	b          uintptr // panel of B, first k
	lda        uintptr // bytes from row to row of a
	start      int     // 0: c starts from zero
	ahead      uintptr // the next memory to read, to bring near meanwhile
	aheadBytes int     // how much of it

	// Where out is set the block is finished: it goes to out with bias added, and c
	// need not hold it. A unit that does not do so says it by direct.
	out       uintptr // rows of 32 columns
	outStride uintptr // bytes
	outBF16   int     // 0: fp32
	bias      uintptr // 32 float32

	narrow bool // only columns 0 to 15 are wanted; the unit may compute all

	// A kernel's loops, which run sets.
	steps int // of k
	//lint:ignore U1000 assembly for amd64 reads it
	tail      int     // groups of four k in the last step, 0 for all
	blocks    int     // of rows
	aheadStep uintptr // bytes of ahead a step
	//lint:ignore U1000 assembly for amd64 reads it
	tiles uintptr // sizes of tiles, on path AMX
	//lint:ignore U1000 assembly for arm64 writes it
	flushed int // other than 0: a result was, on path NEON (package neon)
}

// passes work on rows of 32 fp32 in scratch. Bits of columns say which exist in the
// other operand; strides are in bytes, and stride 0 repeats a row.
type passes struct {
	add, mul  [2]pass                                            // by the other operand's type: F32, BF16
	store     [2]storePass                                       // dst = c + bias
	addScaled func(c, t unsafe.Pointer, rows int, alpha float32) // c += alpha t
	whole     func(*epilogue)                                    // all of them in one; nil: one after the other
}

// epilogue is the argument of passes.whole, which is dst = (c alpha + bias) gate + add + old, with the value before the
// gate in pre. Addresses other than c, bias and dst may be 0. Strides are bytes; all rows have one row of the gate.
type epilogue struct {
	c       uintptr // rows of 32 float32
	rows    int
	columns int     // bits of the columns of other operands
	bias    uintptr // 32 float32
	alpha   float32

	pre, preStride uintptr
	preBF16        int // 0: fp32
	gate           uintptr
	gateBF16       int
	add, addStride uintptr
	addBF16        int
	old, oldStride uintptr // fp32
	dst, dstStride uintptr
	dstBF16        int
}

type (
	pass      func(c, src unsafe.Pointer, stride, rows int, columns uint32)
	storePass func(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer)
)

// tmpBytes is the scratch that packA and packB may use.
const tmpBytes = 64 << 10

// operand is op(A) or op(B) as lines (rows of C, or its columns) over k.
type operand struct {
	p      unsafe.Pointer
	dtype  kernels.DType
	size   int             // bytes an element
	stride int             // bytes from line to line, or from k to k where across is set
	across bool            // lines lie beside each other
	packed *kernels.Packed // lines are the columns of this weight, k its rows
}

func operandOf(m kernels.Mat, across bool) operand {
	return operand{p: pointer(m.Raw()), dtype: m.DType, size: m.DType.Size(), stride: m.Stride * m.DType.Size(), across: across}
}

// at is the address of element k of a line.
func (o operand) at(line, k int) unsafe.Pointer {
	if o.across {
		return unsafe.Add(o.p, k*o.stride+line*o.size)
	}
	return unsafe.Add(o.p, line*o.stride+k*o.size)
}

// bits has the lowest n of 32 set.
func bits(n int) uint32 { return uint32(1<<n - 1) }
