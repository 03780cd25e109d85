package ledger

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
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

// TestSpent: attempts that a rollback abandoned count, an iteration that a killed process repeated counts once, and
// those behind the checkpoint do not; evaluations never do.
func TestSpent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timing.jsonl")
	text := `{"iteration":1,"seconds":{"all":10,"evaluate":3}}
{"iteration":2,"seconds":{"all":100}}
{"iteration":2,"seconds":{"all":20}}
{"iteration":3,"seconds":{"all":30}}
{"iteration":3,"attempt":1,"seconds":{"all":300}}
{"iteration":4,"attempt":1,"seconds":{"all":400}}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		iteration, attempt int
		want               float64
	}{{0, 0, 0}, {2, 0, 27}, {3, 0, 57}, {2, 1, 57}, {3, 1, 357}, {4, 1, 757}} {
		if got, err := Spent(path, c.iteration, c.attempt); err != nil || got != c.want {
			t.Errorf("after iteration %d, attempt %d: %v seconds, want %v (%v)", c.iteration, c.attempt, got, c.want, err)
		}
	}
	if got, err := Spent(path+".none", 3, 0); err != nil || got != 0 {
		t.Errorf("without the file: %v, %v", got, err)
	}
}

// TestMissing: of numbers that are all missing there is no mean, in memory and in a file, and nothing to watch.
func TestMissing(t *testing.T) {
	nan := math.NaN()
	s := SpreadOf([]float64{nan, nan})
	text, err := json.Marshal(s)
	if err != nil || string(text) != `{"mean":null,"std":null,"min":null,"max":null,"missing":2}` {
		t.Errorf("%s, %v", text, err)
	}
	var back Spread
	if err := json.Unmarshal(text, &back); err != nil || !math.IsNaN(back.Mean) || !math.IsNaN(back.Most) || back.Missing != 2 {
		t.Errorf("%+v, %v", back, err)
	}
	some := SpreadOf([]float64{1, nan, 3})
	if text, err = json.Marshal(some); err != nil || string(text) != `{"mean":2,"std":1,"min":1,"max":3,"missing":1}` {
		t.Errorf("%s, %v", text, err)
	}
	if err := json.Unmarshal(text, &back); err != nil || back != some {
		t.Errorf("%+v, %v", back, err)
	}
	if dead, spread := Within([][]int{{0, 1}, {2, 3}}, []float64{nan, nan, 1, 3}); dead != 0 || spread != 0.5 {
		t.Errorf("%d dead groups, spread %v", dead, spread)
	}
	l := &Line{Samples: 2, Total: s, Rewards: map[string]Spread{"scene": s}, Histogram: &Histogram{Modes: 1}}
	for _, name := range []string{"total", "reward.scene", "spread_in_groups", "reward_modes"} {
		if v, ok := l.Value(name); ok {
			t.Errorf("%s is %v, and nothing was scored", name, v)
		}
	}
}

// TestReadTiming: a line that cannot be read is left out: no number of a run depends on it.
func TestReadTiming(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timing.jsonl")
	if err := os.WriteFile(path, []byte("{\"iteration\": 1, \"seconds\": {\"all\": 2}}\n{\"iterat\x00on\": 2}\n[]\n{\"iteration\": 3, \"seconds\": {\"all\": 4}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := ReadTiming(path)
	if err != nil || len(all) != 2 || all[1]["all"] != 2 || all[3]["all"] != 4 {
		t.Errorf("%v, %v", all, err)
	}
}
