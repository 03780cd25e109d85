//go:build amd64 && !noasm

package gemm

//go:generate go run ./gen

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

//go:noescape
func wideRows1(a *block)

//go:noescape
func wideRows2(a *block)

//go:noescape
func wideRows3(a *block)

//go:noescape
func wideRows4(a *block)

//go:noescape
func wideRows5(a *block)

//go:noescape
func wideRows6(a *block)

//go:noescape
func f32AVX2Rows1(a *block)

//go:noescape
func f32AVX2Rows2(a *block)

//go:noescape
func f32AVX2Rows3(a *block)

//go:noescape
func f32AVX2Rows4(a *block)

//go:noescape
func f32AVX2Rows5(a *block)

//go:noescape
func f32AVX2Rows6(a *block)

//go:noescape
func wideAVX2Rows1(a *block)

//go:noescape
func wideAVX2Rows2(a *block)

//go:noescape
func wideAVX2Rows3(a *block)

//go:noescape
func wideAVX2Rows4(a *block)

//go:noescape
func wideAVX2Rows5(a *block)

//go:noescape
func wideAVX2Rows6(a *block)

//go:noescape
func bf16Narrow1(a *block)

//go:noescape
func bf16Narrow2(a *block)

//go:noescape
func bf16Narrow3(a *block)

//go:noescape
func bf16Narrow4(a *block)

//go:noescape
func bf16Narrow5(a *block)

//go:noescape
func bf16Narrow6(a *block)

//go:noescape
func bf16Narrow7(a *block)

//go:noescape
func bf16Narrow8(a *block)

//go:noescape
func bf16Narrow9(a *block)

//go:noescape
func bf16Narrow10(a *block)

//go:noescape
func bf16Narrow11(a *block)

//go:noescape
func bf16Narrow12(a *block)

//go:noescape
func f32Narrow1(a *block)

//go:noescape
func f32Narrow2(a *block)

//go:noescape
func f32Narrow3(a *block)

//go:noescape
func f32Narrow4(a *block)

//go:noescape
func f32Narrow5(a *block)

//go:noescape
func f32Narrow6(a *block)

//go:noescape
func f32Narrow7(a *block)

//go:noescape
func f32Narrow8(a *block)

//go:noescape
func f32Narrow9(a *block)

//go:noescape
func f32Narrow10(a *block)

//go:noescape
func f32Narrow11(a *block)

//go:noescape
func f32Narrow12(a *block)

//go:noescape
func f32Narrow13(a *block)

//go:noescape
func f32Narrow14(a *block)
