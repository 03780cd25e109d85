// Package eval judges the judges: it says how far a reward can be trusted before anything is
// trained on it.
//
//	report, err := eval.Run(ctx, reward, eval.Scenes(), eval.Options{})
//
// Start with Run in run.go. It scores labelled pairs (sets.go, which also draws two sets of them), and measures
//
//	order.go      how often the reward agrees with the labels, with Kendall's tau
//	ties.go       the same where labels may be ties, by published rules
//	calibrate.go  how likely the sample with the higher score is better, by the difference of scores
//	groups.go     whether the reward separates the samples of one prompt
//	swap.go       whether it favours the sample shown first, and whether it repeats itself
//	probe.go      which changes raise it that should not, and the rule that calls one a weakness
//
// card.go is a report in Markdown.
//
// All intervals are bootstraps over prompts (bootstrap.go): pairs of one prompt share pictures.
// A reward is always asked about two items of one prompt together, so that rewards that compare
// and those that do not are measured alike. A pair without both scores is missing: it is
// counted and left out.
package eval
