package run

import (
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// lineOf has a number of every kind.
func lineOf() *ledger.Line {
	return &ledger.Line{Prompts: []int{1, 2}, Samples: 6, Total: ledger.Spread{Mean: 0.5, Missing: 3}, Rewards: map[string]ledger.Spread{"scene": {Mean: 0.25, Missing: 3}, "jpeg": {Missing: 6}},
		Dead: 1, Spread: 0.1, Diversity: 2, BestOf: map[string]float64{"2": 0.7}, Histogram: &ledger.Histogram{Modes: 3}, Pictures: map[string]float64{"brightness": 100},
		HeldOut: map[string]ledger.Measure{"total": {Mean: 0.6}},
		Updates: []ledger.UpdateLine{{Mismatch: 0.01, RatioMost: 1}, {Loss: -1, Gradient: 4, Rate: 0.1, RatioMost: 0.75, Metrics: map[string]float64{"clipped": 0.3, "kl": 0.02}}}}
}

// TestRules: bounds of three kinds, and how often in a row.
func TestRules(t *testing.T) {
	half, low, high := 0.5, 0.4, 0.9
	m := newMonitors(&experiment.Experiment{}, "")
	m.rules = []experiment.Monitor{{Watch: "total", FallsBelow: &half, For: 1}, {Watch: "total", IsBelow: &low, For: 2}, {Watch: "total", RisesAbove: &high, For: 1}}
	for i, c := range []struct {
		mean  float64
		fired int
	}{{0.6, 0}, {0.35, 0}, {0.39, 1}, {0.35, 0}, {0.5, 0}, {0.35, 0}, {0.29, 2}, {0.95, 1}} {
		l := lineOf()
		l.Total = ledger.Spread{Mean: c.mean}
		if got := m.check(l); len(got) != c.fired || len(l.Fired) != c.fired {
			t.Errorf("%d: %v fired %v", i, c.mean, got)
		}
	}
	l := lineOf()
	l.Total.Missing = l.Samples
	if got := m.check(l); len(got) != 0 {
		t.Errorf("what was not measured fired %v", got)
	}
}

// TestFallsBelow: a number that begins below 0 may lose as much of its size as one above 0.
func TestFallsBelow(t *testing.T) {
	for _, c := range []struct {
		share, first, v float64
		says            string // "": the rule holds
	}{
		{0.5, 10, 5, ""},
		{0.5, 10, 4.9, "total fell to 4.9, below 0.5 of the 10 that it began with"},
		{0.5, -8.788, -8.788, ""},
		{0.5, -8, -11.9, ""},
		{0.5, -8, -12.1, "total fell to -12.1, below -12: it began with -8, and falls_below = 0.5 allows a loss of 4"},
		{0.9, -10, 3, ""},
		{0.9, 0, 0, ""},
		{0.9, 0, -1, "total fell to -1, below 0.9 of the 0 that it began with"},
	} {
		if got := broken(experiment.Monitor{Watch: "total", FallsBelow: &c.share}, c.v, c.first); got != c.says {
			t.Errorf("%v, then %v: %q, want %q", c.first, c.v, got, c.says)
		}
	}
}
