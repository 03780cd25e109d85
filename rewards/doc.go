// Package rewards says how good a sample is, as a number, and why.
//
// Start with Reward in reward.go: an Item in, a Score with its Evidence out, or an error. Judge
// runs one over a group. Then one file a reward:
//
//	layout.go      objects where they were asked for
//	scenes.go      the embedded task: layout, its own score, the recogniser of drawn words
//	ocr.go         words that can be read, against those asked for; tesseract.go reads others
//	jpeg.go        size as a file; sharpness.go how sharp a picture is
//	motion.go      how a clip moves
//	protocol.go    requests to rewards outside and their replies; remote.go, exec.go and serve.go speak it
//
// The value of each below its formula, a Kind (kind.go), is all that files, checks and plans know of it. answers/ has
// the rules for replies of language models, judge/ asks models for their opinion, neural/ and preference/ are
// networks; kinds/ lists all of them. boxes/, edits/ and motion/ are the mathematics below, evidence/ the reasons of a
// score. Combination in combine.go makes several rewards of a batch one, by weights, scales and gates.
//
// A reward that failed is missing, and is written NaN. It is never 0: a 0 would train against the sample for a
// mistake of the judge. Higher is better. Each reward has a unit of its own, which is why weights have scales.
package rewards
