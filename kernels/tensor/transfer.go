package tensor

import (
	"fmt"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// FromF32 is a tensor of the given numbers, rounded to its type (F32 or BF16).
func (p *Pool) FromF32(d kernels.DType, x []float32, shape ...int) *Tensor {
	t := p.New(d, shape...)
	t.UploadF32(x)
	return t
}

// FromI32 is a tensor of integers.
func (p *Pool) FromI32(x []int32, shape ...int) *Tensor {
	t := p.New(kernels.I32, shape...)
	t.UploadBytes(bytesOf(x))
	return t
}

// UploadBytes copies elements as they are stored.
func (t *Tensor) UploadBytes(b []byte) {
	if len(b) != t.Len()*t.dtype.Size() {
		panic(fmt.Sprintf("tensor: %d bytes for %v", len(b), t))
	}
	t.pool.backend.Upload(t.Span(), b)
}

// UploadF32 copies numbers, rounded to the tensor's type.
func (t *Tensor) UploadF32(x []float32) {
	if len(x) != t.Len() {
		panic(fmt.Sprintf("tensor: %d numbers for %v", len(x), t))
	}
	t.UploadPart(x, 0)
}

// UploadPart is UploadF32 of the numbers from a place on, in a contiguous tensor.
func (t *Tensor) UploadPart(x []float32, from int) {
	to := t.Span().Slice(from, from+len(x))
	switch t.dtype {
	case kernels.F32:
		t.pool.backend.Upload(to, bytesOf(x))
	case kernels.BF16:
		h := make([]uint16, len(x))
		for i, v := range x {
			h[i] = ref.ToBF16(v)
		}
		t.pool.backend.Upload(to, bytesOf(h))
	default:
		panic(fmt.Sprintf("tensor: numbers for %v", t))
	}
}

// F32 copies the numbers to the host; rows with gaps are packed.
func (t *Tensor) F32() []float32 {
	x := make([]float32, t.Len())
	t.DownloadF32(x)
	return x
}

// DownloadF32 copies the numbers into x. A download waits for the device, so there is one, whatever the
// layout: rows with gaps are packed before it.
func (t *Tensor) DownloadF32(x []float32) {
	if len(x) != t.Len() {
		panic(fmt.Sprintf("tensor: %d places for %v", len(x), t))
	}
	if !t.Contiguous() {
		t = t.packed()
		defer t.Free()
	}
	t.DownloadPart(x, 0)
}

// DownloadPart copies the numbers from a place on into x, of a contiguous tensor.
func (t *Tensor) DownloadPart(x []float32, from int) {
	of := t.Span().Slice(from, from+len(x))
	switch t.dtype {
	case kernels.F32:
		t.pool.backend.Download(bytesOf(x), of)
	case kernels.BF16:
		h := make([]uint16, len(x))
		t.pool.backend.Download(bytesOf(h), of)
		for i, v := range h {
			x[i] = ref.FromBF16(v)
		}
	default:
		panic(fmt.Sprintf("tensor: %v read as numbers", t))
	}
}

// packed is a copy of the tensor without gaps between rows.
func (t *Tensor) packed() *Tensor {
	y := t.pool.New(t.dtype, t.Shape()...)
	from, rows, cols := t.Mat(), t.Rows(), t.Cols()
	t.pool.backend.Copy(&kernels.Copy{Src: from.Span, Dst: y.Span(), Shape: [5]int{1, 1, 1, rows, cols},
		SrcStride: [5]int{0, 0, 0, from.Stride, 1}, DstStride: [5]int{0, 0, 0, cols, 1}})
	return y
}

// Bytes copies a contiguous tensor's memory to the host.
func (t *Tensor) Bytes() []byte {
	b := make([]byte, t.Len()*t.dtype.Size())
	t.pool.backend.Download(b, t.Span())
	return b
}

// F64 copies a tensor of float64, the result of a reduction.
func (t *Tensor) F64() []float64 {
	if t.dtype != kernels.F64 {
		panic(fmt.Sprintf("tensor: %v read as f64", t))
	}
	x := make([]float64, t.Len())
	t.pool.backend.Download(bytesOf(x), t.Span())
	return x
}

func bytesOf[T any](x []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(zero)))
}
