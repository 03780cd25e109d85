// Package cuda is the backend of NVIDIA's devices: libcuda opened at run time, kernels that
// travel inside the program, no cgo and no toolkit.
//
// Start with Open, which returns a kernels.Backend, and Probe, which says what a machine has.
// The driver's functions are called in caller.go; memory.go and staging.go are device memory and
// copies; backend.go launches; elementwise.go, rows.go, groupnorm.go, product.go and attention.go
// lay out the arguments of the kernels in src/*.cu, one Go struct for each C struct.
//
// # Arithmetic
//
// The kernels round every fp32 operation by name, in the order of package ref, with denormals
// flushed: all results are the bits of package ref, and so of the CPU backend. Products of bf16
// follow the same rule (an even and an odd chain for each 32 of k) on the fp32 units. Nothing is
// split over a reduction and nothing is added atomically, so a row's bits depend on its own
// operands alone, and rollout and update agree.
//
// # The double
//
// double/ is a libcuda.so.1 for tests: it runs the same sources, compiled by a C++ compiler, over
// host memory. The conformance suite passes on it in CI; package double builds it.
//
// # Not yet run on hardware
//
// Nothing here has run on a device. Open: that the images load under drivers of CUDA 12 and 13 for
// compute capability 8.x, 9.0, 10.x and by PTX elsewhere; that the device's flushing of results
// just below the smallest normal agrees with ref's; the conformance suite; every speed.
package cuda
