package run

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
)

// TestTryPrograms: a program that fails is found before the model is loaded, with its output; its own word that a
// grey picture has no score is an answer.
func TestTryPrograms(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	for script, fails := range map[string]string{
		`echo "no module named ocr" >&2; exit 3`:                                           "no module named ocr",
		`while read line; do echo '{"n": 1, "scores": [{"missing": "it is grey"}]}'; done`: "",
		`while read line; do echo '{"n": 1, "scores": [0.5]}'; done`:                       "",
		`while read line; do echo '{"n": 1, "scores": [0.5, 0.5]}'; done`:                  "scores",
	} {
		e := parse(t, `reward=[{name="exec", tries=1, command=["/bin/sh", "-c", `+strconv.Quote(script)+`]}]`)
		s := rewardSet{failures: map[string]int{}, ctx: t.Context(), say: t.Logf}
		if err := s.open(e.Rewards, fastest(t, 1)); err != nil {
			t.Fatal(err)
		}
		err := s.tryPrograms(e, []prompts.Prompt{{Text: "a red circle"}})
		if fails == "" && err != nil || fails != "" && (err == nil || !strings.Contains(err.Error(), fails) || !strings.Contains(err.Error(), "a grey picture before anything is made")) {
			t.Errorf("%s: %v", script, err)
		}
		if err := s.close(); err != nil && fails == "" {
			t.Error(err)
		}
	}
}
