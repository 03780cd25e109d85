// Package ptxtest runs PTX for tests: the text that drivers compile, not its host twin.
//
// Start with New, which returns a Device: a driver.Caller over interpreted kernels, for cuda.Open in a test. driver.go
// has the driver's functions, block.go a launch.
//
// parse.go splits text into functions and statements. link.go gives a kernel's registers their places and puts called
// functions in place of calls. table.go finds the row of an instruction: its operands, and its effect. Rows
// are in arithmetic.go (registers, roundings), memory.go, warp.go (a warp's lanes), mma.go (fragments of tensor
// cores), copies.go (cp.async; the copy engine), and for compute capability 9.0 mbarrier.go and wgmma.go.
//
// warp.go runs the lanes of a warp: those at the lowest place of the program go on, so that lanes meet where
// branches end. block.go lets warps take turns and has the numbered barriers. races.go holds every access to those
// before it, and has the order of accesses.
//
// # Errors
//
// An access outside an allocation, or not aligned to its size, ends a launch with the kernel, the line and the lane. So
// does an instruction for a whole warp that some lanes never reach, and a barrier that some warps never reach. Fresh
// memory is NaN. The target of cp.async is NaN until its group is waited for; products of a warpgroup run at their
// wait, and boxes of the copy engine come when nothing else can go on. Launches of a kernel take turns at three orders
// of warps: in turns of few instructions, as said; and each warp as far as it can go, from the first on and from the
// last on, with late copies at once. A unit that reads a thread's store without a fence ends a launch.
//
// So does a race, in any order of warps: two accesses to the same bytes of shared or global memory, one of them a
// write, that no barrier and no wait orders, of two lanes of a warp as of two blocks. A kernel that waits for the ones
// before it (griddepcontrol.wait) may not touch global memory earlier.
//
// Fragments and roundings follow NVIDIA's document "Parallel Thread Execution ISA", sections 9.7.3 (floating point),
// 9.7.9 (data movement), 9.7.13 (barriers), 9.7.14 (matrices) and 9.7.15 (warpgroups). They are not taken from the
// kernels. An image with an unknown instruction is refused by name.
//
// Products of a warpgroup read for the warp as one: a release by one of its lanes after the wait holds for all. The
// copy engine's boxes are written when their barrier's phase ends, and ordered before the observers of that end.
//
// The order of wgmma.fence follows a rule of ours: one is needed after each wait, before the next product. That a
// thread leaves registers alone which a product reads or writes is not checked as such; where it matters, sums differ.
//
// It cannot show speed, bank conflicts, or the code of ptxas.
package ptxtest
