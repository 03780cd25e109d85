package fleet

import (
	"strings"
	"testing"
)

// TestWithdrawn: a job that was withdrawn while it waited is given to nobody.
func TestWithdrawn(t *testing.T) {
	h := NewInside()
	defer h.Close()
	ctx, all := t.Context(), jobsOf(2)
	for _, j := range all {
		if err := h.Offer(ctx, j.Name(), j, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Withdraw(ctx, all[0].Name()); err != nil {
		t.Fatal(err)
	}
	if j, err := h.Take(ctx); err != nil || j == nil || j.Name() != all[1].Name() {
		t.Errorf("took %v, %v", j, err)
	}
	if j, err := h.Take(ctx); err != nil || j != nil {
		t.Errorf("then took %v, %v", j, err)
	}
}

// TestTold: a worker's description of itself is a bounded line, in the name of its key.
func TestTold(t *testing.T) {
	e := Event{Worker: "another", Why: "a\nb\x1b[2J", About: &About{Host: "host\nfleet: FORGED LINE", Device: strings.Repeat("x", 100000)}}.From("own")
	if e.Worker != "own" || e.Why != "a b [2J" || e.About.Host != "host fleet: FORGED LINE" || len(e.About.Device) > 2*mostNamed {
		t.Errorf("%q, %q, %q and %d letters", e.Worker, e.Why, e.About.Host, len(e.About.Device))
	}
}
