// Package optim moves parameters: AdamW, clipping of gradients, learning rates
// over the updates, and averages of weights (EMA, the old policy of NFT).
//
// Start at [Options], what a user sets under [optim]. [AdamW] is the float64
// definition of the step; the engine's kernel takes the same step in float32
// with the numbers of [AdamW.Kernel], and a test holds the two together.
//
// Updates count from 0. Parameters are flat slices: how they are cut into tensors
// does not matter here, but for [ClipScale], whose norm goes over all of them.
package optim
