package rows

import "unsafe"

// kernel names a loop of assembly; names.go lists them.
type kernel int

// set is a path's kernels by types: [kernel][in is bf16][out is bf16].
type set [kernelCount][2][2]func(*job)

// job is what a kernel is told.
type job struct {
	src    [7]unsafe.Pointer
	dst    unsafe.Pointer
	n      int        // elements of a row
	rows   int        // of a loop down the rows: at least 1
	stride [3]int     // the same, of sources 0 and 1, and of dst: bytes
	s      [8]float32 // numbers that every element takes part with
	total  float32    // what a sum comes to

	//lint:ignore U1000 assembly for arm64 writes it
	flushed int // other than 0: a result was, on path NEON (package neon)
}
