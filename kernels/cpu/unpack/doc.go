// Package unpack writes compressed weights in full, fast: the twin of package ref's loop of the same name, with its
// bits.
//
// Start with unpack.go: it cuts rows into runs of blocks that begin at whole bytes and hold groups of 16 codes. The
// assembly, which the program in gen writes, unpacks a run; ref unpacks the rest of a block. A table of 16 values
// lies in registers, and so does one of 256 on AVX-512.
//
// Denormals stay, so that MXCSR and FPCR are left as Go sets them.
package unpack

//go:generate go run ./gen
