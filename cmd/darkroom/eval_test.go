package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards/eval"
)

// reports are the output of eval.
type reports struct{ Reports []*eval.Report }

// evaluated is the output of eval.
func evaluated(t *testing.T, args ...string) (out reports, code int, said string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code = execute(t.Context(), append([]string{"eval", "--json", "--page", filepath.Join(t.TempDir(), "page.html")}, args...), strings.NewReader(""), &stdout, &stderr)
	if code == 0 {
		if err := json.Unmarshal([]byte(stdout.String()), &out); err != nil {
			t.Fatal(err)
		}
	}
	return out, code, stderr.String()
}

// The report names a judge that always prefers the first picture, over the whole way from flags to report.
func TestEvalFindsAJudgeThatLikesTheFirst(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "<answer>Image 1 is better</answer>"}}]}`)
	}))
	defer s.Close()
	out, code, said := evaluated(t, "--reward", "judge", "--url", s.URL, "--set", "judge.form=think", "--pairs", eval.SceneSet, "--probes", "0", "--again", "20")
	if code != 0 || len(out.Reports) != 1 {
		t.Fatal(code, said)
	}
	r := out.Reports[0]
	if r.Swaps == nil || r.Swaps.First.Value != 1 || r.Swaps.Flipped.Value != 1 || r.Repeats.Same.Value != 1 {
		t.Errorf("%+v, %+v", r.Swaps, r.Repeats)
	}
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "ask in both orders") }) {
		t.Errorf("%q", r.Warnings)
	}
	// Asked in both orders it has no opinion.
	if out, code, said = evaluated(t, "--reward", "judge", "--url", s.URL, "--set", "judge.form=think", "--set", "judge.both_orders=true", "--pairs", eval.SceneSet, "--probes", "0", "--again", "10"); code != 0 {
		t.Fatal(code, said)
	}
	if r = out.Reports[0]; r.Swaps.First.Value != 0 || r.Order.Equal != r.Order.Pairs {
		t.Errorf("%+v, %+v", r.Swaps.First, r.Order)
	}
}

// A server that fails, lies or is gone has pairs without scores and a reason, and nothing hangs.
func TestEvalOfBadServers(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	var asked atomic.Int64
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		says   string
	}{
		"gone":   {nil, "refused"},
		"length": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"scores": [1]}`) }, "1 scores for 2 items"},
		"NaN":    {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"scores": [NaN, 1]}`) }, "a score is a number"},
		"text":   {func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"scores": ["good", "bad"]}`) }, "a score is a number"},
		"half": {func(w http.ResponseWriter) {
			if asked.Add(1)%2 == 0 {
				_, _ = io.WriteString(w, `{"scores": [1, 2]}`)
			} else {
				_, _ = io.WriteString(w, `<html>`)
			}
		}, ""},
	} {
		url := gone.URL
		if c.answer != nil {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				c.answer(w)
			}))
			defer s.Close()
			url = s.URL
		}
		pairs := filepath.Join(t.TempDir(), "pairs.jsonl")
		line := `{"prompt": "p", "a": {"turns": [{"text": "x"}]}, "b": {"turns": [{"text": "y"}]}, "better": "a"}` + "\n"
		if err := os.WriteFile(pairs, []byte(strings.Repeat(line, 2)), 0o644); err != nil {
			t.Fatal(err)
		}
		out, code, said := evaluated(t, "--reward", "http", "--url", url, "--timeout", "5", "--pairs", pairs)
		switch {
		case c.says == "" && (code != 0 || out.Reports[0].Judged != 1 || out.Reports[0].Missing != 1 || len(out.Reports[0].Warnings) == 0):
			t.Errorf("%s: %d, %s, %+v", name, code, said, out)
		case c.says != "" && (code != 1 || !strings.Contains(said, c.says)):
			t.Errorf("%s: %d, %s", name, code, said)
		}
	}
}
