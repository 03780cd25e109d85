// Package loss is the objectives: values to minimise, and their gradients at the network's
// outputs. Everything is plain float64 over slices: log-probabilities, means of transitions,
// velocities, rewards. Autograd begins where these gradients end; there is no other version
// of a loss.
//
// Start with Clip in clip.go, the clipped policy objective with its ratios and KLs as
// options (ratio.go, kl.go). dppo.go masks instead of clipping. nft.go, awm.go,
// dpo.go, dgpo.go, crd.go and forward.go look at a finished sample that is noised anew.
//
// For the tokens of a language model start with TokenLoss in tokens.go: one token's loss is in surrogates.go,
// gmpo.go, vespo.go and covariance.go, their average in aggregate.go. correction.go is for a sampler that disagrees
// with the trainer; value.go is the value head's loss.
//
// Rows are samples; "mean" over rows, and over elements where a row has several.
//
// Invariants (tests): every gradient agrees with finite differences; in the first update
// after a roll every ratio is exactly 1.
package loss
