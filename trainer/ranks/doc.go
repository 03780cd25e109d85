// Package ranks trains on several devices: policies that hold the same weights, each on a device of its
// own, as one policy.
//
// Start with [Policy]. A loss is numbers here, and what a network puts out comes to the host anyway: so
// the loop, rewards, advantages, objectives and the ledger know nothing of ranks. Questions are shared
// out, answers come back in their order, and gradients alone travel between devices
// (kernels/exchange adds them up). Rank 0 is the first; rewards, and what a run keeps, are its business.
package ranks
