// Package rollout is what is rolled: which prompts, how often, with which seeds.
package rollout
