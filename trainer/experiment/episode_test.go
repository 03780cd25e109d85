package experiment

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/sampling"
)

// TestClips: settings that clips cannot be read with are refused with their key.
func TestClips(t *testing.T) {
	for table, want := range map[string]string{
		"fps = 0": "no frame of a clip is read", "fps = 2\ncount = 4": "says how many frames are read", "fps = 0\ncount = 4": "",
		"min = 9\nmax = 8": "at least 9 frames", "least_pixels = 9\nmost_pixels = 8": "at least 9 pixels", "least_pixels = 9": "",
	} {
		text := strings.Replace(least, `name = "jpeg"`, `name = "format"`, 1) + "[episode]\n[episode.clips]\n" + table + "\n"
		_, err := Parse("a.toml", []byte(text), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", table, err, want)
		}
	}
}

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

// TestEngineSettings: with an engine, truncated importance sampling is on unless the file turns it off, and an
// engine's limits are refused.
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

// TestRecordedArithmetic: the resolved file of a run that an earlier version began lacks episode.sampling.arithmetic
// and draws in float64; a file that says less, or says it, draws as it says.
func TestRecordedArithmetic(t *testing.T) {
	now := parse(t, least+"[episode]\nsampling = { temperature = 0.7, top_p = 0.9 }\n")
	if got := now.Episode.Sampling.Arithmetic; got != sampling.Float32 {
		t.Errorf("a file that says nothing of it draws in %s", got)
	}
	var resolved bytes.Buffer
	if err := now.Write(&resolved); err != nil {
		t.Fatal(err)
	}
	if got := parse(t, resolved.String()).Episode.Sampling.Arithmetic; got != sampling.Float32 {
		t.Errorf("the resolved file of a run of today draws in %s", got)
	}
	line := regexp.MustCompile(`(?m)^arithmetic = .*\n|, arithmetic = "[^"]*"`)
	if n := len(line.FindAll(resolved.Bytes(), -1)); n != 1 {
		t.Fatalf("the resolved file says %d times how it draws", n)
	}
	before := parse(t, string(line.ReplaceAll(resolved.Bytes(), nil)))
	if got := before.Episode.Sampling.Arithmetic; got != sampling.Float64 {
		t.Errorf("the resolved file of an earlier version draws in %s", got)
	}
	if list := Changes(before, now); len(list) != 1 || !strings.Contains(list[0], "--set episode.sampling.arithmetic=float64") {
		t.Errorf("going on with the file that the run was begun with: %v", list)
	}
	if e, err := Parse("a.toml", []byte(least), []string{"episode.sampling.arithmetic=float16"}); err == nil {
		t.Errorf("float16 was taken: %+v", e.Episode.Sampling)
	}
}
