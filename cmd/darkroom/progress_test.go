package main

import (
	"strings"
	"testing"
	"time"
)

// In a pipe there are plain lines, not more often than every ten seconds.
func TestProgressInAPipe(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, "sampling")
	at := p.begun
	p.now = func() time.Time { return at }
	for done := range 21 {
		p.set(done, 40)
		at = at.Add(time.Second)
	}
	p.end()
	if want := "sampling: 10 of 40, 30s left\nsampling: 20 of 40, 20s left\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
