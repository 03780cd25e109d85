// Package neon writes assembly for arm64: the generators of the kernels use it.
//
// Start with Writer. A method named as an instruction of Advanced SIMD writes that
// instruction, destination first as in Arm's manual. Go's assembler lacks most of them,
// so each is a WORD with its mnemonic beside it; loads and stores are Go's own.
//
// # Denormals
//
// Every kernel runs with FPCR.FZ set (Flush, Ret). FZ makes denormal operands zeros of their sign, as ref does. A
// result is another matter: Arm flushes results below 2^-126 before rounding, ref and x86 those below it after
// rounding, so that a result in [2^-126 - 2^-151, 2^-126) is 0 here and 2^-126 there. Whatever is flushed sets the
// sticky bit FPSR.UFC, which Ret hands to the caller. The caller then computes the same piece again in ref's
// arithmetic, from operands that the kernel left as they were. Sums and differences of numbers that are not denormal
// are exact where they are tiny, so a kernel without products, quotients or roots needs no such look.
package neon
