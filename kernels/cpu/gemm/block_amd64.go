//go:build amd64 && !noasm

package gemm

//go:generate go run ./gen

// block is the argument of a block kernel. Its addresses are plain numbers, since they
// end up past the memory that they walk over; the caller keeps that alive.
type block struct {
	c         uintptr // rows of 32 float32
	a         uintptr // packed A, first row, first k
	b         uintptr // panel of B, first k
	lda       uintptr // bytes from row to row of a
	steps     int     // of k: 32 wide in bf16, 1 in f32
	blocks    int     // of rows
	start     int     // 0: c starts from zero
	ahead     uintptr // memory to bring near meanwhile
	aheadStep uintptr // bytes of it a step
}

//go:noescape
func bf16Rows1(a *block)

//go:noescape
func bf16Rows2(a *block)

//go:noescape
func bf16Rows3(a *block)

//go:noescape
func bf16Rows4(a *block)

//go:noescape
func bf16Rows5(a *block)

//go:noescape
func bf16Rows6(a *block)

//go:noescape
func f32Rows1(a *block)

//go:noescape
func f32Rows2(a *block)

//go:noescape
func f32Rows3(a *block)

//go:noescape
func f32Rows4(a *block)

//go:noescape
func f32Rows5(a *block)

//go:noescape
func f32Rows6(a *block)

//go:noescape
func f32Rows7(a *block)

//go:noescape
func f32Rows8(a *block)

//go:noescape
func f32Rows9(a *block)

//go:noescape
func f32Rows10(a *block)

//go:noescape
func f32Rows11(a *block)

//go:noescape
func f32Rows12(a *block)

//go:noescape
func f32Rows13(a *block)

//go:noescape
func f32Rows14(a *block)
