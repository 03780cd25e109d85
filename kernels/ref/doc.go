// Package ref is the definition of every operation's bits: one obvious loop an
// operation, over spans of host memory. It is also the path that runs where no
// assembly exists, over ranges of rows handed out by the pool of package cpu.
//
// Start with arith.go (the arithmetic: fused multiply-add with flushed denormals,
// bf16 rounding, exp and its relatives), then any operation's file.
//
// An operation named Op is func Op(a *kernels.Op, lo, hi int): it computes rows lo to hi-1 of the result and nothing
// else (the function defines a row).
// Loops that belong together are written so that a reader can check them against
// the formula in package kernels; speed comes from the fast twins.
package ref
