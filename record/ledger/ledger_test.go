package ledger

import (
	"math"
	"testing"
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

func TestHistogram(t *testing.T) {
	nan := math.NaN()
	b := BinsOf([]float64{0, 1, nan})
	if b.Low != -0.5 || b.High != 1.5 {
		t.Fatalf("%+v", b)
	}
	h := b.Count([]float64{0, 1, nan, -9, 9, 1.5})
	if h.Counts[0] != 1 || h.Counts[4] != 1 || h.Counts[12] != 1 || h.Counts[15] != 2 {
		t.Errorf("%+v", h)
	}
	if alike := b.Count([]float64{0.3, 0.3}); alike.Modes != 1 {
		t.Errorf("%+v", alike)
	}
	if two := b.Count([]float64{0, 1, 0, 1}); math.Abs(two.Modes-2) > 1e-12 {
		t.Errorf("%+v", two)
	}
	if BinsOf([]float64{nan}) != nil {
		t.Error("bins of nothing")
	}
	if b := BinsOf([]float64{2, 2}); b.Low != 1 || b.High != 3 {
		t.Errorf("%+v", b)
	}
}

func TestMeasure(t *testing.T) {
	nan := func() float64 { var z float64; return z / z }()
	m := MeasureOf([][]float64{{1, 3}, {4, nan}, {nan, nan}, {6}})
	// Means 2, 4, 6: their mean 4, deviation 2, standard error 2/sqrt(3), t(2) = 4.303.
	if m.Prompts != 3 || m.Missing != 3 || m.Mean != 4 || m.Low > -0.968 || m.Low < -0.969 || m.High+m.Low > 8.0001 || m.High+m.Low < 7.9999 {
		t.Errorf("%+v", m)
	}
	for df, want := range map[int]float64{1: 12.706, 10: 2.228, 30: 2.0423, 47: 2.0117, 1000: 1.9623} {
		if got := student(df); got < want-2e-3 || got > want+2e-3 {
			t.Errorf("t(%d) is %v, not %v", df, got, want)
		}
	}
}
