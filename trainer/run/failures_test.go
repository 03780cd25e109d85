package run

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
)

// trying asks a program about a grey picture, before a run with these prompts, and returns the warnings.
func trying(t *testing.T, script, failure string, list ...prompts.Prompt) (warned string, err error) {
	t.Helper()
	e := parse(t, `reward=[{name="exec", tries=1, on_failure="`+failure+`", command=["/bin/sh", "-c", `+strconv.Quote(script)+`]}]`)
	var said []string
	s := rewardSet{failures: map[string]int{}, ctx: t.Context(), say: saying(&said)}
	if err := s.open(e.Rewards, fastest(t, 1)); err != nil {
		t.Fatal(err)
	}
	err = s.tryPrograms(e, list)
	if err := s.close(); err != nil {
		t.Error(err)
	}
	return strings.Join(said, "\n"), err
}

// TestTryPrograms: a program that fails is found before the model is loaded, with its output, and stops a run that
// leaves no samples out, or any run where it fails alone; its own word that a grey picture has no score is an answer.
func TestTryPrograms(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	alone := `echo "no module named ocr" >&2; exit 3`
	for script, fails := range map[string]string{
		alone: "no module named ocr",
		`while read line; do echo "too grey" >&2; exit 3; done`:                             "too grey",
		`while read line; do echo "too grey" >&2; exit 3; done; echo "no line" >&2; exit 1`: "too grey",
		`while read line; do echo '{"n": 1, "scores": [{"missing": "it is grey"}]}'; done`:  "",
		`while read line; do echo '{"n": 1, "scores": [0.5]}'; done`:                        "",
		`while read line; do echo '{"n": 1, "scores": [0.5, 0.5]}'; done`:                   "scores",
	} {
		for _, failure := range []string{"stop", "skip"} {
			says, err := trying(t, script, failure, prompts.Prompt{Text: "a red circle"})
			if failure == "skip" && (err != nil) != (script == alone) {
				t.Errorf("%s in a run that leaves samples out: %v", script, err)
			}
			if err != nil {
				says = err.Error()
			}
			if fails == "" && says != "" || fails != "" && (!strings.Contains(says, fails) || !strings.Contains(says, "a grey picture before anything is made") || failure == "stop" && err == nil) {
				t.Errorf("%s, %s: %q, %v", script, failure, says, err)
			}
		}
	}
}

// TestTryProgramsPrompt: a program is tried with the first prompt that the run will ask it about.
func TestTryProgramsPrompt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	const only = `while read line; do case "$line" in *"a red circle"*) echo '{"n": 1, "scores": [1]}';; *) echo "$line" >&2; exit 3;; esac; done`
	edit := prompts.Prompt{Text: "make it blue", Image: prompts.Images{"a.png"}}
	other := prompts.Prompt{Text: "a word", Weights: map[string]float64{"exec": 0}}
	asked := prompts.Prompt{Text: "a red circle", Weights: map[string]float64{"exec": 2}}
	for what, list := range map[string][]prompts.Prompt{"the third": {edit, other, asked}, "none": {edit, other}, "no prompts": nil} {
		if says, err := trying(t, only, "stop", list...); err != nil || says != "" {
			t.Errorf("%s: %q, %v", what, says, err)
		}
	}
}
