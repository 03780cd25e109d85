// Package rollout is what is rolled: which prompts, how often, with which seeds, and
// with which probabilities a token is drawn.
package rollout
