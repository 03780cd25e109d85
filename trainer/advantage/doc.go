// Package advantage turns rewards into advantages: how much better a sample was than what
// it is compared with.
//
// Start with Options in group.go: nearly all published estimators are a baseline, a scale,
// and what happens in the corners (one sample, no deviation), over groups or over the batch.
// history.go remembers rewards of earlier iterations, diversity.go and signs.go are rules of
// their own, several.go combines rewards, tokens.go and gae.go spread advantages over the
// tokens of an answer, shaping.go and choose.go change rewards and choose samples.
//
// A reward that is missing is NaN. It is left out of every statistic, and its advantage is
// NaN: nobody is blamed for it. It is never 0.
package advantage
