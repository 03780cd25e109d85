// Package gemm computes the matrix products of the CPU backend: kernels.Gemm and
// kernels.Pack, with the bits of ref.Gemm on every path.
//
// Start with Engine in engine.go, then product.go, which cuts a product into tasks.
//
// # How a product runs
//
// C is cut into blocks of rows and ranges of columns, never along k. A task packs its
// rows of A into scratch, or reads them where they lie if the unit can (reads), then walks
// over panels of 32 columns: for each panel it runs the chunks of k through a micro-kernel,
// which adds to a scratch block of C (rows of 32 fp32, contiguous, in L1 or L2), and then
// finishes that block: bias, activation, gate, residual, and the store in C's type. Where
// k is so long that few rows would fit, the task packs a part of k, walks over its panels,
// whose blocks of C wait in scratch, and goes on with the next part; the last one finishes
// them. B's panels come from a weight packed once, from a shared packing stage (several row
// blocks, or several parts of k), or are packed by the task itself.
//
// # Units
//
// A unit (unit.go) is one arithmetic on one path: how A and B are packed, and the
// block kernel. A new path implements unit and is added to unitsOf:
//
//	packB  32 columns of op(B), a range of k, into a panel of its own layout
//	packA  rows of op(A), a range of k, into a block of its own layout
//	run    C[rows][32] (+)= A block · B panel over a chunk of k; C is scratch, rows of
//	       128 bytes, unless the unit says (direct) that it can store the finished block
//	       with its biases in C itself, which saves a pass
//	passes finishes a block in scratch otherwise
//
// The driver gives run addresses in a block struct, with the memory that will be read
// next for prefetching; rows are at most 192 and k at most the unit's chunk (all of k
// where one row block of the kernel holds all rows), so that a call stays short.
//
// Columns and k beyond the matrix are zeros in packed panels, since a weight packed
// for the forward product is repacked from its panels for the backward.
//
// # Layouts here (paths AVX512, BF16 and AMX)
//
//	bf16 panel of B  [k/32][16 dword rows][32 columns]; of every four consecutive k the
//	                 even dword row holds {high: 0, low: 2}, the odd one {high: 1, low: 3}:
//	                 VDPBF16PS takes the high half first, so even dword rows make the
//	                 chain E of the bf16 rule and odd ones the chain O
//	bf16 block of A  rows of dwords in the same order, k padded to 32
//	tile panel of B  [k/32][16 dword rows][32 columns], path AMX: a dword is {low: 2i, high: 2i+1}
//	tile block of A  rows of bf16, k in its order, padded to 32
//	f32 panel of B   [k][32 columns]
//	f32 block of A   rows
//
// On path NEON a panel of bf16 is [k][32 columns] too. A call widens a chunk of it to fp32 once for all of its rows,
// and a block of A is fp32 that is rounded to bf16, of each 32 k the even ones first: a kernel runs the chain E over
// a step of 32 k, keeps it, and then O, so that 24 registers of sums serve each chain in turn. A kernel's flushed
// results are looked at again (exact_arm64.go).
//
// The assembly is written by the generator in gen; run go generate after a change.
package gemm
