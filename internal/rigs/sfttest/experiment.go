// Package sfttest has an experiment that learns from conversations of a file, for tests.
package sfttest

import (
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Experiment is one that learns from a file, with the embedded model.
func Experiment(t testing.TB, lessons string, sets ...string) *experiment.Experiment {
	t.Helper()
	text := `
[run]
name = "learning"
iterations = 1
[model]
path = "embed:tiny-vlm"
train = ['model\..*']
[episode]
protocol = "darkroom"
tokens = 400
[rollout]
prompts = "embed:zoom"
group = 1
[[reward]]
name = "accuracy"
[loss]
objective = "sft"
`
	e, err := experiment.Parse("learning.toml", []byte(text), append([]string{"rollout.lessons=" + lessons}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	return e
}
