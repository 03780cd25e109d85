// Package blas is cuBLASLt with types: products of bf16 with fp32 sums, each by an algorithm that its caller names.
//
// Start with OpenLibrary and Open. A Shape is a weight; Describe makes its Layouts, Whole lists the library's
// algorithms for it, and Multiply runs one. Which algorithm may compute a shape is the business of package cuda, whose
// choice.go says why the library must not decide it.
package blas
