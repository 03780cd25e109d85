package fleet

import "testing"

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
