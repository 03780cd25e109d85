package training

import (
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// lineOf has a number of every kind.
func lineOf() *Line {
	return &Line{Prompts: []int{1, 2}, Samples: 6, Total: Spread{Mean: 0.5, Missing: 3}, Rewards: map[string]Spread{"scene": {Mean: 0.25, Missing: 3}, "jpeg": {Missing: 6}},
		Dead: 1, Spread: 0.1, Diversity: 2, BestOf: map[string]float64{"2": 0.7}, Histogram: &Histogram{Modes: 3}, Pictures: map[string]float64{"brightness": 100},
		HeldOut: map[string]Measure{"total": {Mean: 0.6}},
		Updates: []UpdateLine{{Mismatch: 0.01, RatioMost: 1}, {Loss: -1, Gradient: 4, Rate: 0.1, RatioMost: 0.75, Metrics: map[string]float64{"clipped": 0.3, "kl": 0.02}}}}
}

func TestValues(t *testing.T) {
	l := lineOf()
	for name, want := range map[string]float64{"total": 0.5, "reward.scene": 0.25, "missing": 0.5, "missing.jpeg": 1, "dead_groups": 1, "dead_share": 0.5, "spread_in_groups": 0.1, "diversity": 2,
		"best_of.2": 0.7, "reward_modes": 3, "picture.brightness": 100, "heldout.total": 0.6, "loss": -1, "gradient": 4, "lr": 0.1, "ratio": 0.25, "mismatch": 0.01, "clip_fraction": 0.3, "kl": 0.02} {
		if got, ok := l.Value(name); !ok || math.Abs(got-want) > 1e-15 {
			t.Errorf("%s is %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"gold.jpeg", "heldout.scene", "best_of.3", "accuracy", "reward.", "nothing.at.all", ""} {
		if got, ok := l.Value(name); ok {
			t.Errorf("%q was not measured, and is %v", name, got)
		}
	}
}

// TestRules: bounds of three kinds, and how often in a row.
func TestRules(t *testing.T) {
	half, low, high := 0.5, 0.4, 0.9
	tr := &Training{Experiment: &experiment.Experiment{}, first: map[string]float64{}, streaks: map[string]int{}}
	tr.Monitors = []experiment.Monitor{{Watch: "total", FallsBelow: &half, For: 1}, {Watch: "total", IsBelow: &low, For: 2}, {Watch: "total", RisesAbove: &high, For: 1}}
	for i, c := range []struct {
		mean  float64
		fired int
	}{{0.6, 0}, {0.35, 0}, {0.39, 1}, {0.35, 0}, {0.5, 0}, {0.35, 0}, {0.29, 2}, {0.95, 1}} {
		l := lineOf()
		l.Total = Spread{Mean: c.mean}
		if got := tr.watch(l); len(got) != c.fired || len(l.Fired) != c.fired {
			t.Errorf("%d: %v fired %v", i, c.mean, got)
		}
	}
	l := lineOf()
	l.Total.Missing = l.Samples
	if got := tr.watch(l); len(got) != 0 {
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

func TestHistogram(t *testing.T) {
	nan := math.NaN()
	b := binsOf([]float64{0, 1, nan})
	if b.Low != -0.5 || b.High != 1.5 {
		t.Fatalf("%+v", b)
	}
	h := b.count([]float64{0, 1, nan, -9, 9, 1.5})
	if h.Counts[0] != 1 || h.Counts[4] != 1 || h.Counts[12] != 1 || h.Counts[15] != 2 {
		t.Errorf("%+v", h)
	}
	if alike := b.count([]float64{0.3, 0.3}); alike.Modes != 1 {
		t.Errorf("%+v", alike)
	}
	if two := b.count([]float64{0, 1, 0, 1}); math.Abs(two.Modes-2) > 1e-12 {
		t.Errorf("%+v", two)
	}
	if binsOf([]float64{nan}) != nil {
		t.Error("bins of nothing")
	}
	if b := binsOf([]float64{2, 2}); b.Low != 1 || b.High != 3 {
		t.Errorf("%+v", b)
	}
}
