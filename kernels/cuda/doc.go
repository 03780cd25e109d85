// Package cuda is the backend of NVIDIA's devices: libcuda opened at run time, kernels that
// travel inside the program, no cgo and no toolkit.
//
// Start with Open, which returns a kernels.Backend, and Probe, which says what a machine has.
// This package has the operations. Package driver has libcuda, device memory and copies, package blas cuBLASLt, and
// package nccl joins several devices: what exchange.Sum adds up travels over NCCL, opened at run time as well.
// launch.go launches; elementwise.go, copy.go, rows.go, groupnorm.go, product.go and attention.go lay out the arguments
// of the kernels in src/*.cu, one Go struct for each C struct. Copies wait for those that follow them and start as one
// kernel (copy.go).
//
// Products of bf16 on tensor cores read operands as they lie, or have them gathered first; tensor.go decides, and
// chooses a tile. src/staging.h and src/tensor.cu are their kernels.
//
// Products of bf16 with a weight go by wgmma on a Hopper (mode.go says why); elsewhere through cuBLASLt, where it
// can be opened (libraryproduct.go). choice.go says how a row keeps its bits there, measures that it
// does, keeps with a run what was chosen for it, and has several ranks choose together.
//
// Attention on compute capability 9.0 has kernels of its own (src/hopper_attention.cu and hopper_backward.cu, by
// wgmma; hopper.go launches them). choice.go compares them with the others when a device opens, and leaves them
// out where they differ. So have products of our own (src/hopper_product.cu, hopperproduct.go): with both operands
// along k or B across it, and n and k above 64. The low-rank product of an adapter (kernels.Pair) is a few more terms
// of their sums, and products of few columns by a factor of bf16 go with them. Those by factors of fp32
// (src/adapter.cu, adapterproduct.go) and convolutions stay with mma.sync. Gradients of weights have kernels of their
// own (src/hopper_gradient.cu, hoppergradient.go). Which tile computes a product changes no bit; it is chosen by
// times measured on devices (hoppertimes.go).
//
// # Arithmetic
//
// The kernels round every fp32 operation by name, in the order of package ref, with denormals
// flushed: results are the bits of package ref, and so of the CPU backend. The exceptions are
// products, convolutions and attention in bf16 math, which run on tensor cores: terms exact, sums in
// fp32 in an order of the unit's own. Attention by wgmma takes powers of two from the special unit
// (ex2.approx). So do GELU by tanh, QuickGELU and SiLU beside products by wgmma - in their epilogue, and in Unary, GLU
// and their gradients where results are bf16 - with reciprocals of the unit: within 2^-20 of the argument's size.
//
// DARKROOM_CUDA (mode.go) is made of words:
//
//   - exact runs these too by ref's rule (an even and an odd chain for each 32 of k), on the fp32 units: the slow
//     twins, and the way to continue a run of the CPU byte for byte;
//   - own leaves cuBLASLt out, and lt insists on it;
//   - mma (own,mma) leaves the kernels for Hopper out;
//   - trial takes kernels for Hopper that no device has run, and that change no bit;
//   - wait waits after each launch, so that an error names its operation;
//   - times takes the time of each kernel, and darkroom prints the sums at the end (profile.go);
//   - apart starts each kernel when the one before has ended. Otherwise, on 9.0 and 10.x, a kernel may start beside the
//     end of the one before, for whose results it waits (after_others of src/device.h).
//
// In every mode nothing is split over a reduction and nothing is added atomically: a row's bits depend
// on its own operands alone, not on the batch nor on its place, and rollout and update run the same
// kernels. Head dimensions above 128, and the gradient of an attention's bias, take the exact kernels.
//
// # The double
//
// double/ is a libcuda.so.1 for tests: it runs the same sources, compiled by a C++ compiler, over
// host memory, and a libcublasLt that breaks each promise on demand. The conformance suite passes on it
// in CI; package double builds it. It has several devices, whose memory and streams it tells apart, and is a
// libnccl.so.2, too: a gathering runs when the streams of all its ranks come to it, and hangs where one
// does not come, until it is aborted.
//
// The double never reads what a compiler made of the sources. Package ptxtest interprets the PTX that ships, and
// ptx_test.go runs some of the suite on it (make ptx: more).
//
// # What has run on hardware
//
// On one H100 80GB HBM3 (driver 580, CUDA 13.0), on 2026-11-23, at commit f7a0ad7:
//
//   - the suite, go test -run Hardware: in exact mode 1,456 of 1,456 cases have ref's bits; with own,mma, with own and
//     with lt (cuBLASLt 13.1.0) 209 of 209 cases each pass;
//   - 43 of 43 recorded cases of golden/models, in exact mode;
//   - 60 iterations of MixGRPO on the embedded model, in 22 s: the reward of held-out prompts went from 0.629 to 0.782;
//   - training of networks of the shapes of SD3.5-medium and FLUX.1-dev, with random weights.
//
// On an H200, on 2026-11-27: 1,666 of 1,666 cases in exact mode, 247 of 247 by the default kernels with gradients of
// weights by wgmma and those on trial, compute-sanitizer's memcheck of the products, 40 of 40 recorded cases of
// golden/models. A tile of 128 x 96 is on trial: it is faster for [974,1536,6144], and slower for decoding.
//
// internal/ondevice asks a device all of it in one go, beside PyTorch. A numbered barrier that nobody comes to would
// hang, so a first run elsewhere wants a time limit. Open:
//
//   - other compute capabilities (8.x, 10.x, and PTX elsewhere): that images load and pass the suite there;
//   - drivers of CUDA 12;
//   - several devices, several processes on one, and the driver's own errors;
//   - NCCL: that a real one opens, joins devices, and works in the primary contexts and on the streams of the backends;
//     its own threads, timeouts, and errors that come late. Aborting frees a device that waits for a lost one on the
//     double;
//   - the choice of a tile by measured times (28dd488) and products of our own by default (58dda24), together in one
//     run on a device; the choice for k below 1536, where no product was measured; times of a tile of 128 x 192;
//   - attention by wgmma where heads' strides do not nest ([B, H, S, D]): whether cuTensorMapEncodeTiled takes them;
//   - what products by mma.sync cost with each tile: the efforts in tensor.go are counted reads, not measured.
//
// Where wgmma does not serve, products of our own use mma.sync, which reaches about half of a Hopper's peak.
package cuda
