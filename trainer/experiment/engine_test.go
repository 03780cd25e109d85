package experiment

import (
	"fmt"
	"strings"
	"testing"
)

// talks is a file with an engine.
const talks = `
[run]
name = "t"
iterations = 1
[model]
path = "embed:tiny-vlm"
[rollout]
prompts = "embed:cards"
[[reward]]
name = "accuracy"
[episode]
[episode.engine]
url = "http://localhost:8000"
`

// TestEngineSettings: with an engine, truncated importance sampling is on unless the file says otherwise, and what an
// engine cannot do is refused.
func TestEngineSettings(t *testing.T) {
	for sets, want := range map[string]string{"": "token", "loss.correction.weights='none'": "none", "loss.correction.weights='sequence'": "sequence"} {
		var all []string
		if sets != "" {
			all = []string{sets}
		}
		e, err := Parse("t.toml", []byte(talks), all)
		if err != nil {
			t.Fatal(err)
		}
		if c := e.Loss.Correction; c.Weights != want || c.Threshold != 2 {
			t.Errorf("%q: weights are %q up to %v", sets, c.Weights, c.Threshold)
		}
	}
	const teaches = `objective = "distill", kl = { weight = 1, reference = "teacher", estimator = "k2" }`
	for losses, want := range map[[2]string]string{
		{`objective = "gspo"`, teaches}: "none", {teaches, `objective = "gspo"`}: "token",
		{teaches, `objective = "gspo", correction = { weights = "none" }`}: "none",
	} {
		text := fmt.Sprintf("%s[[stage]]\niterations = 1\nloss = { %s }\n", talks, losses[1])
		e, err := Parse("t.toml", []byte(text), []string{"model.teacher='t'", "loss={" + losses[0] + "}"})
		if err != nil {
			t.Errorf("a stage of %s after %s: %v", losses[1], losses[0], err)
			continue
		}
		roundTrip(t, e)
		if got := e.Stages[0].Loss.Correction.Weights; got != want {
			t.Errorf("a stage of %s after %s: weights are %q", losses[1], losses[0], got)
		}
	}
	plain, _, _ := strings.Cut(talks, "[episode.engine]")
	if e, err := Parse("t.toml", []byte(plain), nil); err != nil || e.Loss.Correction.On() {
		t.Errorf("without an engine something is corrected: %v", err)
	}
	for sets, says := range map[string]string{
		"episode.engine.url='localhost'": "no address of a server",
		"episode.engine.kind='tgi'":      "vllm",
		"model.train=['full']":           "is given what was trained as an adapter",
		"episode.sampling.top_p=0.9":     "draws from some of them",
		"episode.engine.tolerance=0":     "tolerance",
		"episode.noisy={share=0.5}":      "is shown the pictures as they are",
	} {
		if _, err := Parse("t.toml", []byte(talks), []string{sets}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", sets, err)
		}
	}
}
