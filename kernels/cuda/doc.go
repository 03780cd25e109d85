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
// Products of bf16 with a weight go by wgmma on a Hopper (mode.go says why); elsewhere through cuBLASLt, where it can be
// opened (libraryproduct.go): choice.go says how a row keeps its bits there, selfcheck.go measures that it does, record.go keeps with a run what was chosen for it,
// agree.go has several ranks choose together.
//
// Attention on compute capability 9.0 has kernels of its own (src/hopper_attention.cu and hopper_backward.cu, by
// wgmma; hopper.go launches them). hopperchoice.go compares them with the others when a device opens, and leaves
// them out where they differ. So have products of our own (src/hopper_product.cu, hopperproduct.go,
// hopperproductchoice.go): with both operands along k or B across it, and n and k above 64. Those of adapters
// (src/adapter.cu, adapterproduct.go), weight gradients and convolutions stay with mma.sync.
//
// # Arithmetic
//
// The kernels round every fp32 operation by name, in the order of package ref, with denormals
// flushed: results are the bits of package ref, and so of the CPU backend. The exceptions are
// products, convolutions and attention in bf16 math, which run on tensor cores: terms exact, sums in
// fp32 in an order of the unit's own. Attention by wgmma takes powers of two from the special unit
// (ex2.approx). DARKROOM_CUDA=exact runs these too by ref's rule (an even and an odd chain for each 32 of k),
// on the fp32 units: the slow twins, and the way to continue a run of the CPU byte for byte. DARKROOM_CUDA=own leaves cuBLASLt out, =lt insists on it; =mma (or own,mma) leaves
// the kernels for Hopper out.
//
// Either way nothing is split over a reduction and nothing is added atomically: a row's bits depend
// on its own operands alone, not on the batch nor on its place, and rollout and update run the same
// kernels. Head dimensions above 128, and the gradient of an attention's bias, take the exact kernels.
//
// # The double
//
// double/ is a libcuda.so.1 for tests: it runs the same sources, compiled by a C++ compiler, over
// host memory, and a libcublasLt that can be told to break each promise. The conformance suite passes on it
// in CI; package double builds it. It has several devices, whose memory and streams it tells apart, and is a
// libnccl.so.2, too: a gathering runs when the streams of all its ranks come to it, and hangs where one
// does not come, until it is aborted.
//
// # Not yet run on hardware
//
// Nothing here has run on a device; internal/ondevice asks one everything in one go, beside PyTorch. Open:
//
//   - that the images load, under drivers of CUDA 12 and 13, on compute capability 8.x, 9.0 and 10.x,
//     and PTX elsewhere, and pass the suite: go test -run Hardware ./kernels/cuda, then
//     darkroom bench --device cuda:0;
//   - whether the device decides as ref does which results just below the smallest normal are flushed;
//   - fences: the double's threads take turns on one core. Barriers it checks in three orders of warps and
//     copies (shim.h; LOG.md, missing barriers, says what was planted);
//   - copies and kernels that overlap, the driver's own errors, several processes on one device;
//   - cuBLASLt: that it is called rightly (its descriptors were made and read back with the library of
//     13.4.1, which needs no device for that; its products were not), which of its algorithms pass the
//     self-check, on which devices, and whether they are faster with the trip of sums through memory;
//   - NCCL: that a real one opens, joins devices, and works in the primary contexts and on the streams of
//     the backends; several streams of one thread; its own threads, timeouts, and errors that come late.
//     That aborting frees a device which waits for a lost one: on the double it does;
//   - attention by wgmma where heads' strides do not nest ([B, H, S, D]): whether cuTensorMapEncodeTiled takes them.
//     The rest ran on an H100 with the suite's cases near ref, the bits of a query alone, and times (LOG.md, attention
//     timed on an H100). A numbered barrier that nobody comes to would hang, so a first run elsewhere wants a time limit;
//   - what products by mma.sync cost with each tile (the efforts in tensor.go are counted reads, not measured), and what an
//     operand of fp32 costs that is rounded on its way;
//   - products by wgmma elsewhere than on one H100 80GB HBM3, where testdata/hopper_products.csv has their times, and
//     every tile had the same bits; whether a tile of 128 x 192 takes what the others suggest;
//   - speeds. Where wgmma does not serve, products of our own use mma.sync, which reaches about half of a
//     Hopper's peak.
package cuda
