// Package kernels defines the engine's operations: one list of fused operations (Backend) over spans of memory that a
// backend owns.
//
// Start with Backend. Each operation takes one struct that names its operands; the struct's comment is the
// operation's formula. The loop of the same name in package ref spells out the details that the formula leaves open
// (the order of a sum, the polynomial of an exp), and every CPU path returns those bits.
//
// Conventions
//
//   - Memory is row-major. Pictures are NHWC, token matrices are [rows, columns],
//     attention operands are [batch, sequence, head, dim] with explicit strides.
//   - Arithmetic is fp32 with denormals flushed to signed zero, going in and
//     coming out; bf16 operands are widened exactly, and bf16 results are rounded
//     once, to nearest even, when they are stored.
//   - A result row depends on its own operands alone: not on the batch it is in,
//     its position, nor the number of threads.
//   - Sums over samples (weight gradients) are computed for each sample
//     alone and added in the order of the samples, so that the size of a
//     micro-batch cannot change it.
//   - An operand with no elements is "absent" where its comment says optional.
//   - Destinations must not overlap operands, except that an element-wise
//     operation may write exactly over one of its operands.
//
// A wrong shape or type is a programmer's mistake: backends panic, naming it.
package kernels
