// Package eval judges the judges: it says how far a reward can be trusted before anything is
// trained on it.
//
//	report, err := eval.Run(ctx, reward, eval.Scenes(), eval.Options{})
//
// Start with Run in run.go. It asks a reward about pairs of which is known which is better
// (pair.go; scenes.go and clips.go draw two sets of them from nothing), and finds
//
//	order.go      how often it agrees, with Kendall's tau
//	calibrate.go  what a difference of scores says about who is better
//	groups.go     whether it tells the samples of one prompt apart
//	swap.go       whether it likes what is shown first, and whether it says the same twice
//	probe.go      what raises it that should not; flag.go is the rule that calls this a weakness
//
// All intervals are bootstraps over prompts (bootstrap.go): pairs of one prompt share pictures.
// A reward is always asked about two items of one prompt together, so that rewards that compare
// and those that do not are measured alike. A pair without both scores is missing: it is
// counted and left out.
package eval
