// Package advantage turns rewards into advantages: how much better a sample was than what
// it is compared with.
//
// Start with Estimator: one struct of options holds every published estimator, and a Batch
// is all that any of them looks at. Most are a baseline, a scale, and what happens in the
// corners (group.go); history.go remembers earlier iterations, best.go and diversity.go are
// rules of their own, several.go makes one advantage of several rewards. Credit spreads
// what an answer earned over its tokens (credit.go, tokenbaseline.go, whiten.go). Before
// that, shaping.go and winrate.go change rewards, and filter.go and choose.go leave out
// groups and samples; stats.go says what a monitor wants to know.
//
// Everything is plain float64; a group is named by an int, and order never matters but for
// ties, where the first sample wins.
//
// A reward that is missing is NaN. It is left out of every statistic, and its advantage is
// NaN: nobody is blamed for it. It is never 0.
package advantage
