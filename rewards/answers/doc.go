// Package answers judges replies of language models: boxes, choices, numbers, words, the form of an answer, the use
// of tools. Each rule is one that a published project trains with, and its file's card says whose, and where it is
// odd.
//
// Start with rule.go: a Rule is a function of the reply and the truth, and Reward makes a rewards.Reward of it. Rules
// read text as Python does (package pytext), because that decides edge cases; a reply that cannot be read is a bad
// answer and has a score, a truth that cannot be read is a mistake of the prompts file and has none.
package answers
