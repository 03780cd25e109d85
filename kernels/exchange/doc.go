// Package exchange carries numbers between devices that train together, and adds them up in one
// order.
//
// Devices are ranks, from 0 on; one program drives all of them. Start with [Sum], which replaces the
// gradients of all ranks by their sum; a [Wire] is how pieces travel: [Host] goes through the
// program's memory and serves every backend, kernels/cuda has one over NCCL.
//
// A wire copies and computes nothing. The backends add the pieces themselves, rank 0 first. A sum's bits
// therefore depend on the number of ranks, and not on the wire or the size of the pieces, and every
// rank has the same sum.
//
// [Team] ends the other ranks when one fails, so that none waits for it for ever.
package exchange
