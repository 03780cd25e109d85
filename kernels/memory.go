package kernels

import (
	"fmt"
	"unsafe"
)

// DType is the type of an element in memory.
type DType uint8

// The element types. Arithmetic exists for F32 and BF16; the others are stored,
// moved and indexed with.
const (
	F32 DType = iota
	BF16
	F16
	F64
	I32
	I64
	U8
)

var dtypes = [...]struct {
	name string
	size int
}{F32: {"f32", 4}, BF16: {"bf16", 2}, F16: {"f16", 2}, F64: {"f64", 8}, I32: {"i32", 4}, I64: {"i64", 8}, U8: {"u8", 1}}

func (d DType) String() string { return dtypes[d].name }

// Size is the number of bytes an element takes.
func (d DType) Size() int { return dtypes[d].size }

// Buffer is a run of memory that a backend owns. Its start is aligned to 64 bytes.
type Buffer struct {
	Host  []byte  // the memory itself, on a backend whose memory Go can address
	Addr  uintptr // the device address elsewhere
	Bytes int
}

// Span is a typed run of elements inside a buffer. The zero Span is absent.
type Span struct {
	Buf   *Buffer
	Off   int // elements from the buffer's start
	Len   int // elements
	DType DType
}

// Empty reports whether the span is absent.
func (s Span) Empty() bool { return s.Len == 0 }

// Slice is the span of elements lo to hi-1 of s.
func (s Span) Slice(lo, hi int) Span {
	if lo < 0 || hi < lo || hi > s.Len {
		panic(fmt.Sprintf("kernels: slice [%d:%d] of a span of %d elements", lo, hi, s.Len))
	}
	s.Off, s.Len = s.Off+lo, hi-lo
	return s
}

// F32 is the host memory of an F32 span.
func (s Span) F32() []float32 { return hostSlice[float32](s, F32) }

// BF16 is the host memory of a BF16 span: the upper halves of fp32 numbers.
func (s Span) BF16() []uint16 { return hostSlice[uint16](s, BF16) }

// F64 is the host memory of an F64 span.
func (s Span) F64() []float64 { return hostSlice[float64](s, F64) }

// I32 is the host memory of an I32 span.
func (s Span) I32() []int32 { return hostSlice[int32](s, I32) }

// Raw is the host memory of a span of any type, as bytes.
func (s Span) Raw() []byte {
	n := s.DType.Size()
	if s.Len == 0 {
		return nil
	}
	return s.Buf.Host[s.Off*n : (s.Off+s.Len)*n]
}

func hostSlice[T any](s Span, d DType) []T {
	if s.Len == 0 {
		return nil
	}
	if s.DType != d {
		panic(fmt.Sprintf("kernels: a %s span read as %s", s.DType, d))
	}
	b := s.Raw()
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), s.Len)
}

// Mat is a matrix inside a span: element (r, c) lies at r*Stride + c.
type Mat struct {
	Span
	Rows, Cols int
	Stride     int // elements; at least Cols
}

// NewMat views a span as rows of cols contiguous elements.
func NewMat(s Span, rows, cols int) Mat {
	if s.Len < rows*cols {
		panic(fmt.Sprintf("kernels: a %dx%d matrix in a span of %d elements", rows, cols, s.Len))
	}
	return Mat{Span: s, Rows: rows, Cols: cols, Stride: cols}
}

// Row is the span of one row.
func (m Mat) Row(r int) Span { return m.Span.Slice(r*m.Stride, r*m.Stride+m.Cols) }

// RowRange is the matrix of rows lo to hi-1.
func (m Mat) RowRange(lo, hi int) Mat {
	if lo == hi {
		return Mat{Cols: m.Cols, Stride: m.Stride}
	}
	m.Span = m.Span.Slice(lo*m.Stride, (hi-1)*m.Stride+m.Cols)
	m.Rows = hi - lo
	return m
}

// ColRange is the matrix of columns lo to hi-1.
func (m Mat) ColRange(lo, hi int) Mat {
	if m.Rows == 0 || lo == hi {
		return Mat{Rows: m.Rows, Cols: hi - lo, Stride: m.Stride}
	}
	m.Span = m.Span.Slice(lo, (m.Rows-1)*m.Stride+hi)
	m.Cols = hi - lo
	return m
}

// Heads is an attention operand inside a span: element (b, s, h, d) lies at
// b*SB + s*SS + h*SH + d. Its last axis is contiguous.
type Heads struct {
	Span
	B, S, H, D int // batch, sequence, heads, head dimension
	SB, SS, SH int // strides in elements
}

// NewHeads views a span as contiguous [b, s, h, d].
func NewHeads(span Span, b, s, h, d int) Heads {
	if span.Len < b*s*h*d {
		panic(fmt.Sprintf("kernels: heads [%d,%d,%d,%d] in a span of %d elements", b, s, h, d, span.Len))
	}
	return Heads{Span: span, B: b, S: s, H: h, D: d, SB: s * h * d, SS: h * d, SH: d}
}

// At is the index of element (b, s, h, 0) within the span.
func (h Heads) At(b, s, head int) int { return b*h.SB + s*h.SS + head*h.SH }
