package console

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"
)

// In a pipe there are plain lines, not more often than every ten seconds.
func TestProgressInAPipe(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, "sampling")
	at := p.begun
	p.now = func() time.Time { return at }
	for done := range 21 {
		p.Set(done, 40)
		p.Within(done, 40, 0.5) // of which lines say nothing
		at = at.Add(time.Second)
	}
	p.End()
	if want := "sampling: 10 of 40, 30s left\nsampling: 20 of 40, 20s left\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// On a terminal the bar moves within a part.
func TestProgressWithin(t *testing.T) {
	p := NewProgress(io.Discard, "training")
	p.bar = progressbar.NewOptions(1, progressbar.OptionSetWriter(io.Discard))
	last := 0.0
	for _, at := range []struct {
		done  int
		share float64
	}{{0, 0.25}, {0, 0.5}, {1, 0}, {1, 0.1}} {
		p.Within(at.done, 4, at.share)
		if now := p.bar.State().CurrentPercent; now <= last || now != (float64(at.done)+at.share)/4 {
			t.Errorf("%v of 4 and %v: the bar stands at %v", at.done, at.share, now)
		} else {
			last = now
		}
	}
	if p.Set(2, 4); p.bar.State().CurrentPercent != 0.5 {
		t.Errorf("2 of 4: the bar stands at %v", p.bar.State().CurrentPercent)
	}
}
