package kernels

import "fmt"

// Unpack writes a compressed matrix in full. In order, each a separately rounded fp32 operation on an element's code:
//
//	v = Table[code] · Scale;  v *= Over, unless that is 0;  v -= Min, if there is one
//
// Then v is rounded once to the type of Dst. Denormals stay, going in and coming out, unlike in other operations: the
// values are those of a file that was written in full before.
type Unpack struct {
	// Codes are those of the elements in row-major order, Bits of each; those of 4 bits are two a byte, and rows lie
	// one after another without gaps, so that a row of odd length may begin in the middle of a byte.
	Codes Span // u8
	Bits  int  // 4 or 8
	// Low: of two codes of 4 bits in a byte, the first is the low nibble, and else the high one (bitsandbytes).
	Low   bool
	Table Span    // f32 [1<<Bits]: the values of codes
	Scale Blocks  // of the table's values
	Over  float32 // a second factor, of all elements; 0 means none
	Min   Blocks  // optional
	Dst   Mat     // f32, bf16 or f16
}

// Blocks are numbers of the blocks of a matrix: of Rows by Across elements, where block (i, j) has
// Values[i*ceil(Cols/Across) + j]; 0 means all of the matrix's rows or columns. With Flat, they are runs of Flat
// elements in row-major order, across rows, instead. Blocks at the edges and the last run may be short.
type Blocks struct {
	Values       Span // f32
	Rows, Across int
	Flat         int
}

// Count is how many blocks a matrix has.
func (b Blocks) Count(rows, cols int) int {
	if b.Flat > 0 {
		return (rows*cols + b.Flat - 1) / b.Flat
	}
	return parts(rows, b.Rows) * b.PerRow(cols)
}

// PerRow is how many blocks lie beside each other.
func (b Blocks) PerRow(cols int) int { return parts(cols, b.Across) }

// parts is how many parts of a size n elements have.
func parts(n, size int) int {
	switch {
	case n == 0:
		return 0
	case size <= 0:
		return 1
	}
	return (n + size - 1) / size
}

// At is the block of element (row, column) of a matrix.
func (b Blocks) At(row, column, cols int) int {
	switch {
	case b.Flat > 0:
		return (row*cols + column) / b.Flat
	case b.Across > 0:
		column /= b.Across
	default:
		column = 0
	}
	if b.Rows > 0 {
		return row/b.Rows*b.PerRow(cols) + column
	}
	return column
}

// A Repacker is a Backend's further interface where packed weights can lie in memory that others of their size leave,
// and where a compressed weight is packed piece by piece, without ever lying in full beside.
//
// Invariant (tests): the weights have the bytes of Pack, after Unpack where they are compressed.
type Repacker interface {
	Backend
	// PackIn is Pack in memory of the packed size; nil: in new memory.
	PackIn(memory *Buffer, w Mat, math Math) *Packed
	// PackCodes is PackIn of a compressed matrix, whose Dst has a shape and a type, and no memory.
	PackCodes(memory *Buffer, a *Unpack, math Math) *Packed
}

// Check panics where operands do not fit each other.
func (a *Unpack) Check() {
	n := a.Dst.Rows * a.Dst.Cols
	if n == 0 {
		return
	}
	fail := func(format string, args ...any) {
		panic(fmt.Sprintf("kernels: Unpack of %dx%d: ", a.Dst.Rows, a.Dst.Cols) + fmt.Sprintf(format, args...))
	}
	if a.Bits != 4 && a.Bits != 8 {
		fail("codes of %d bits; 4 or 8", a.Bits)
	}
	if a.Codes.DType != U8 || a.Codes.Len < (n*a.Bits+7)/8 {
		fail("codes in %s, %d elements of %d bits", a.Codes.DType, a.Codes.Len, a.Bits)
	}
	if a.Table.DType != F32 || a.Table.Len < 1<<a.Bits {
		fail("a table of %d values in %s; %d in f32", a.Table.Len, a.Table.DType, 1<<a.Bits)
	}
	if d := a.Dst.DType; d != F32 && d != BF16 && d != F16 {
		fail("a destination in %s", d)
	}
	for i, b := range []Blocks{a.Scale, a.Min} {
		if count := b.Count(a.Dst.Rows, a.Dst.Cols); (i == 0 || !b.Values.Empty()) && (b.Values.DType != F32 || b.Values.Len < count) {
			fail("%s of %d blocks: %d values in %s", [...]string{"scales", "minima"}[i], count, b.Values.Len, b.Values.DType)
		}
	}
}
