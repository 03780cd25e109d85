package experiment

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/sampling"
)

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
