// Package attention computes attention and its backward on the CPU's cores, on the
// block kernels of package gemm.
//
// Scores are worked on transposed: a block is [keys][32 queries], so that a query is a
// lane, and maxima, exponentials and sums need no shuffling. For each block of 32
// queries and each kernels.KeyBlock keys:
//
//	S = K·Qᵀ          rows of K, a panel of 32 queries
//	weigh             maxima, P = exp2(c·S - m), sums; P becomes a panel
//	Oᵀ += Vᵀ·P        rows of Vᵀ
//
// Bits are those of ref.Attention, whose order of sums each step keeps.
package attention
