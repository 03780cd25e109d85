// Package compare reports the differences of two runs, from their folders alone: settings, the first number that
// differs with its place and its meaning, and held-out scores, paired by prompt.
//
//	c, err := compare.Runs("runs/a", "runs/b")
//	if c.First != nil {
//		fmt.Println(c.First, c.Meaning)
//	}
//
// Start with Runs in compare.go, which has the order of events. lines.go walks two files side by side, and a line's
// numbers; meaning.go draws the conclusion.
//
// A run is a function of its settings, model and prompts, so two equal runs have equal files but for
// timing.jsonl; the first difference in the order of events is where to look for the cause.
package compare
