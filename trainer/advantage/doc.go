// Package advantage turns rewards into advantages: how much better a sample was than its baseline.
//
// Start with Estimator: one struct of options holds every published estimator, and a Batch is all that any of them
// looks at. Most are a baseline, a scale, and a treatment of the corners (group.go); history.go remembers earlier
// iterations, best.go and diversity.go are rules of their own, Several (estimator.go) makes one advantage of several
// rewards. Credit spreads an answer's reward over its tokens (credit.go, whiten.go), Turns over its turns (turns.go).
// Before that, shaping.go and winrate.go change rewards, and filter.go and choose.go leave out groups and samples;
// Stats (batch.go) has the numbers for monitors.
//
// Everything is plain float64; a group is named by an int, and order never matters but for
// ties, where the first sample wins.
//
// Settings of published systems, where they disagree (the rest is in each file's card):
//
//	                  baseline  scale           ddof  eps             alone  several rewards, and others
//	flow_grpo         mean      batch, group    0     1e-4 add        0      Σ w·r
//	DiffusionNFT      mean      batch           0     1e-4 add        0      Σ w·r; Probability
//	GenRL             mean      max_group       0     1e-4 add        0      Σ w·A
//	ddpo-pytorch      mean      history         0     1e-6 add        -
//	DanceGRPO         mean      group           1     1e-8 add        -      Σ w·A; BestOfN
//	MixGRPO           mean      group           1     1e-8 add        -      Σ w·A or Σ w·r; trim
//	Pref-GRPO         mean      group           1     1e-8 add        -      Σ w·A or gdpo; WinRate
//	verl-omni         mean      group, batch    1     1e-4 add        0      Pairs
//	Flow-Factory      mean      batch, group    0     1e-6 floor      0      Σ w·r or gdpo
//	GARDO             mean      none                                  0      Diversity
//	TRL               mean      group, batch    1     1e-4 add        0      Σ w·r or gdpo; partial
//	verl              mean      group           1     1e-6 add        unit
//	verl, vectorised  mean      group           1     1e-6 floor_add  unit   single
//	verl's RLOO       others    none                                  raw    vectorised: zero
//	OpenRLHF          mean      group           1     1e-9 add        -      AtEnd, Credit count
//	Mini-o3           mean      group, inverse  1     1e-6 add        unit   Silenced
//
// A reward that is missing is NaN. It is left out of every statistic, and its advantage is
// NaN: nobody is blamed for it. It is never 0.
package advantage
