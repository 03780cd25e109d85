package ledger

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

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
