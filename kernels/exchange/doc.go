// Package exchange carries numbers between devices that train together, and adds them up in one
// order.
//
// Devices are ranks, from 0 on; one program drives all of them. Start with [Sum], which replaces the
// gradients of all ranks by their sum; a [Wire] is how pieces travel: [Host] goes through the
// program's memory and serves every backend, kernels/cuda has one over NCCL.
//
// A wire copies and computes nothing. What is added is added by the backends themselves, rank 0
// first: so a sum's bits depend on the number of ranks, and neither on the wire nor on the size of
// the pieces, and every rank has the same.
//
// What becomes of the others when a rank fails is in [Team]: none waits for it for ever.
package exchange
