// Package answers judges what language models write: boxes, choices, numbers, words, the form
// of an answer, the use of tools. Each rule is one that a published project trains with, and
// its file's card says whose, and where it is odd.
//
// Start with rule.go: a Rule is a function of the reply and the truth, and Reward makes of it
// what the trainer asks for. Rules read text as Python does (package pytext), because that is
// what decides at the edges; a reply that cannot be read is a bad answer and has a score, a
// truth that cannot be read is a mistake of the prompts file and has none.
package answers
