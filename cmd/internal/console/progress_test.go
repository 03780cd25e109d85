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

// The time left is reckoned from the parts of this process, without the time before them.
func TestProgressFrom(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, "mine")
	at := p.begun.Add(10 * time.Minute) // of a model's loading
	p.now = func() time.Time { return at }
	p.From(100, 30*time.Second)
	for _, c := range []struct {
		done, all int
		after     time.Duration
	}{{101, 104, 0}, {102, 104, 30 * time.Second}, {103, 104, 60 * time.Second}, {104, 104, time.Minute}, {105, 1000, time.Minute}, {106, 3000, time.Minute}} {
		at = at.Add(c.after)
		p.Set(c.done, c.all)
	}
	want := "mine: 101 of 104, 1m30s left\nmine: 102 of 104, 1m0s left\nmine: 103 of 104, 40s left\nmine: 104 of 104\nmine: 105 of 1000, 12 h left\nmine: 106 of 3000, 40 h left\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
