// Package rows computes normalisation, softmax, element-wise families, reductions
// and the optimiser fast: the twins of package ref's loops of the same names, with
// their bits.
//
// Start with engine.go. An operation is a few kernels over rows, each of
// which reads memory once; rows of bf16 are read and written by kernels of their own,
// or widened into scratch that stays in cache. The kernels are written by the program
// in gen, for AVX2 and AVX-512 from one description. Where a path has none, ref runs.
package rows

//go:generate go run ./gen
