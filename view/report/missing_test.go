package report

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TestMissing: an iteration whose scores are all missing is a gap of the curve, and not a point at 0.
func TestMissing(t *testing.T) {
	dir := run(t)
	lines := []byte{}
	for i, mean := range []float64{-0.4, math.NaN(), -0.3, -0.2} {
		l := ledger.Line{Iteration: i + 1, Prompts: []int{1}, Samples: 4, Total: ledger.SpreadOf([]float64{mean, mean, mean, mean}),
			Rewards: map[string]ledger.Spread{"scene": ledger.SpreadOf([]float64{mean, mean, mean, mean})}}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, text...), '\n')
	}
	// As it was written once: all are missing, and the mean says 0.
	lines = append(lines, `{"iteration": 5, "prompts": [1], "samples": 2, "total": {"mean": 0, "std": 0, "min": 0, "max": 0, "missing": 2}, "rewards": {}}`+"\n"...)
	if err := os.WriteFile(filepath.Join(dir, "ledger.jsonl"), lines, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Curve{r.measured("", "total"), r.plots()[0].Curves[0]} {
		if pieces := c.pieces(); len(pieces) != 2 || len(pieces[0].X) != 1 || len(pieces[1].X) != 2 || pieces[1].X[1] != 4 {
			t.Errorf("the curve's pieces are %+v", pieces)
		}
	}
	x, y := Plot{Curves: []Curve{r.measured("", "total")}}.ranges()
	if y.high >= 0 || x.high != 5 {
		t.Errorf("the axes show %v and %v", x, y)
	}
	page, err := Page(dir)
	must(t, err)
	if d := documents(t, page).Runs[0]; len(d.Plots) == 0 || !strings.Contains(string(page), `"x":[1,2,3,4,5],"y":[-0.4,null,-0.3,-0.2,null]`) {
		t.Errorf("the page's curve: %v", d.Plots[0])
	}
}

// TestUnderWay: the page of a run that has not ended has the measures before training, the gold rewards, and the latest
// evaluation as such; a missing measure is null.
func TestUnderWay(t *testing.T) {
	dir := run(t)
	before := ledger.Measure{Mean: 0.4, Low: 0.35, High: 0.45, Prompts: 9}
	result, err := json.Marshal(ledger.Result{Status: ledger.UnderWay, Rewards: map[string]string{"a<b": "trained", "clean": "gold"},
		HeldOut: map[string]ledger.Gain{"total": {Before: &before}, "never": {Before: &before}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "result.json"), result, 0o644); err != nil {
		t.Fatal(err)
	}
	page, err := Page(dir)
	must(t, err)
	d := documents(t, page).Runs[0]
	if !d.Live || len(d.Gains) != 4 || d.Gains[0].Value < 0.19 || d.Gains[0].Iteration != 5 || !d.Gains[0].Rose() || !strings.Contains(titles(d), "gold: never trained on") {
		t.Errorf("gains are %+v", d.Gains)
	}
	if g := d.Gains[2]; g.Name != "clean" || g.Known || g.Before != nil {
		t.Errorf("what was not measured before is %+v", g)
	}
	if !strings.HasPrefix(d.Conclusion.Text, "The held-out reward rose by 0.200") {
		t.Errorf("the verdict is %+v", d.Conclusion)
	}
}

// TestCompareRewards: runs that are trained on different rewards share no axis, and no gain is called comparable.
func TestCompareRewards(t *testing.T) {
	first, second := run(t), run(t)
	text, err := os.ReadFile(filepath.Join(second, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(text), `"a\u003cb":"trained"`, `"jpeg":"trained"`, 1)
	if other == string(text) {
		t.Fatal("the reward is not named as this test believes")
	}
	if err := os.WriteFile(filepath.Join(second, "result.json"), []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	page, err := Compare([]string{first, second})
	must(t, err)
	if d := documents(t, page); d.Alike || d.Runs[1].Trained != "jpeg" {
		t.Errorf("the runs are trained on %q and %q", d.Runs[0].Trained, d.Runs[1].Trained)
	}
}
