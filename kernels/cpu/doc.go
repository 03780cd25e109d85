// Package cpu is the fast backend: Go and assembly over a pool of workers.
//
// Start with New. A Backend embeds ref.Backend, so an operation without a method
// here runs by its definition; the methods, in one file a family, split the work
// over rows and hand each piece to the kernels of a path (package isa). Kernels
// live in packages below this one: gemm, attention, rows, noise, unpack.
//
// Splitting never touches a reduction, so threads cannot change a bit.
package cpu
