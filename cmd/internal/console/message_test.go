package console

import (
	"strings"
	"testing"
)

// TestMessage: a message is broken at spaces, its marks are bold, and in a pipe it stays as it is.
func TestMessage(t *testing.T) {
	text := "warning: the run takes about 90 GiB of one card, more than most\n  hint: a smaller size\nplain"
	want := "WARNING: the run takes about 90 GiB of\n  one card, more than most\n  HINT: a smaller size\nplain"
	if got := laidOut(text, 40, strings.ToUpper); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	long := "darkroom: " + strings.Repeat("x", 60)
	for _, line := range strings.Split(laidOut(long, 50, strings.ToUpper), "\n") {
		if len(line) > 50 {
			t.Errorf("%d characters: %q", len(line), line)
		}
	}
	if got := laidOut(long, 20, strings.ToLower); got != long {
		t.Errorf("a narrow terminal: %q", got)
	}
	deep := strings.Repeat(" ", 60)
	for _, line := range strings.Split(laidOut(deep+long, 50, strings.ToUpper), "\n") {
		if words, ok := strings.CutPrefix(line, deep); !ok || len(words) > 22 {
			t.Errorf("behind a deep indent: %q", line)
		}
	}
	quoted := "  | lr     = 0.01      # a line of a file, with columns"
	if got := laidOut(quoted, 40, strings.ToUpper); got != quoted {
		t.Errorf("a quoted line: %q", got)
	}
	var out strings.Builder
	if Message(&out, text); out.String() != text+"\n" {
		t.Errorf("in a pipe: %q", out.String())
	}
}
