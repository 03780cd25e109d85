// Package loss is the objectives: values to minimise, and their gradients at the network's
// outputs. Everything is plain float64 over slices: log-probabilities, means of transitions,
// velocities, rewards. Autograd begins where these gradients end; there is no other version
// of a loss.
//
// Start with Clip in clip.go, the clipped policy objective with its ratios and KLs as
// options (ratio.go, noise.go, kl.go). dppo.go masks instead of clipping. nft.go, awm.go,
// dpo.go, dgpo.go, crd.go and flowmatch.go look at a finished sample that is noised anew.
//
// For the tokens of a language model start with TokenLoss in tokens.go: what one token's loss
// is stands in surrogates.go, gmpo.go, vespo.go and covariance.go, which tokens count in
// keep.go, how they are averaged in aggregate.go. mismatch.go, correction.go and offpolicy.go are
// for a sampler that disagrees with the trainer; heads.go is log-probability, entropy and value.
//
// Rows are samples; "mean" over rows, and over elements where a row has several.
//
// Invariants (tests): every gradient agrees with finite differences; in the first update
// after a roll every ratio is exactly 1.
package loss
