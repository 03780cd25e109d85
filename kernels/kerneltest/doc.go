// Package kerneltest holds every backend to the definitions of package ref.
//
// A Case is a small program: it asks its Env for operands (seeded numbers, the
// same on every backend), runs an operation, and names the results. Run plays each
// case on ref and on a backend and compares the results bit by bit (any NaN equals
// any NaN). Around every operand lie guard bands that must survive, and every
// operand starts a few elements past its buffer's start in half of the plays.
//
// A case may also have the result of a naive float64 formula (Env.Near): that holds ref itself to the mathematics.
package kerneltest
