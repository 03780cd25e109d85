package ablate

import (
	"strings"
	"testing"
)

// TestBest: a cell is marked where its gain lies above every other's and above 0, with its interval.
func TestBest(t *testing.T) {
	cell := func(name string, low, mean, high float64, seeds int) Row {
		return Row{Cell: Cell{Name: name}, HeldOut: Gain{Gain: Interval{mean, low, high, seeds}}}
	}
	for _, c := range []struct {
		what string
		rows []Row
		best int
	}{
		{"one above the other", []Row{cell("a", 0.1, 0.2, 0.3, 3), cell("b", 0.4, 0.5, 0.6, 3)}, 1},
		{"intervals that overlap", []Row{cell("a", 0.1, 0.2, 0.45, 3), cell("b", 0.4, 0.5, 0.6, 3)}, -1},
		{"no gain", []Row{cell("a", -0.2, -0.1, -0.05, 3), cell("b", 0, 0, 0.001, 3)}, -1},
		{"one seed", []Row{cell("a", 0.1, 0.1, 0.1, 1), cell("b", 0.5, 0.5, 0.5, 1)}, -1},
		{"one that is not finished", []Row{cell("a", 0, 0, 0, 0), cell("b", 0.4, 0.5, 0.6, 3)}, 1},
	} {
		table := &Table{Rows: c.rows}
		if got := table.best(); got != c.best {
			t.Errorf("%s: %d is marked, not %d", c.what, got, c.best)
		}
		page, err := table.Page()
		if told := !strings.Contains(string(page), "no difference can be told"); err != nil || told != (c.best >= 0) || strings.Count(string(page), `class="best"`) != min(1, c.best+1) {
			t.Errorf("%s: the page tells a difference: %v, %v", c.what, told, err)
		}
	}
}
