package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/ledger"
	"github.com/darkroom-rl/darkroom/trainer/report/browsertest"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// experimentText has a name that must not become a part of the page.
const experimentText = `
[run]
name = "</pre><script>alert(1)</script>"
iterations = 5
[model]
path = "embed:tiny-sd3"
[rollout]
prompts = "p.txt"
[[reward]]
name = "scene"
[sampler]
steps = 4
window = { size = 2, drop = 1 }
`

// run is a folder as training leaves it.
func run(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "maps")
	write := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("config.toml", []byte(experimentText))
	m := func(mean float64) ledger.Measure {
		return ledger.Measure{Mean: mean, Low: mean - 0.05, High: mean + 0.05, Prompts: 9}
	}
	p := func(mean float64) *ledger.Measure { v := m(mean); return &v }
	var lines bytes.Buffer
	for i := range 5 {
		l := ledger.Line{Iteration: i + 1, Prompts: []int{1, 2}, Total: ledger.Spread{Mean: 0.4 + float64(i)/20, Std: 0.1}, Spread: 0.08,
			Rewards: map[string]ledger.Spread{"a<b": {Mean: 0.5}, "clean": {Mean: 0.9}}, Updates: []ledger.UpdateLine{{Gradient: 0.1, RatioMean: 1, RatioMost: 1.01}},
			Samples: 4, BestOf: map[string]float64{"1": 0.4, "2": 0.5, "4": 0.6}, Histogram: &ledger.Histogram{Low: 0, High: 1, Counts: []int{1, 0, 3, 0}},
			Pictures: map[string]float64{"brightness": 120, "saturation": 0.3, "contrast": 40}, Choice: &ledger.ChoiceLine{Rolls: 2, Groups: 1, Learned: 2}}
		if i == 4 {
			l.HeldOut = map[string]ledger.Measure{"a<b": m(0.6), "clean": m(0.8), "total": m(0.6)}
			l.Fired = []string{"heldout.clean fell"}
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(text, '\n'))
	}
	lines.WriteString(`{"iteration": 6, "tor`) // killed while it wrote
	write("ledger.jsonl", lines.Bytes())
	result, err := json.Marshal(ledger.Result{Status: ledger.Finished, Iterations: 5, Rewards: map[string]string{"a<b": "trained", "clean": "gold"},
		HeldOut: map[string]ledger.Gain{"a<b": {Before: p(0.4), After: p(0.6), Iteration: 5}, "clean": {Before: p(0.95), After: p(0.8), Iteration: 5}, "total": {Before: p(0.4), After: p(0.42), Iteration: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	write("result.json", result)
	var sheet bytes.Buffer
	if err := png.Encode(&sheet, image.NewGray(image.Rect(0, 0, 40, 20))); err != nil {
		t.Fatal(err)
	}
	value, low := 0.9, 0.1
	var samples bytes.Buffer
	for i := range 5 {
		for k, v := range []*float64{&value, &low, nil} {
			l := ledger.SampleLine{Iteration: i + 1, Sample: k, Text: "a <b>", Total: v, Scores: map[string]ledger.ScoreLine{"a<b": {Value: v, Parts: map[string]float64{"task": 0.5, "clean": 0.25}}}}
			if v == nil {
				l.Scores["a<b"] = ledger.ScoreLine{Missing: "no answer"}
			} else {
				l.Picture = []string{"images/best.png", "images/worst.png"}[k]
			}
			if i == 4 {
				l.Picture = "../../secret.png"
			}
			text, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			samples.Write(append(text, '\n'))
		}
	}
	write("samples.jsonl", samples.Bytes())
	var timing bytes.Buffer
	for i := range 5 {
		fmt.Fprintf(&timing, "{\"iteration\":%d,\"seconds\":{\"roll\":1,\"score\":0.5,\"train\":2,\"evaluate\":%d,\"all\":%d}}\n", i+1, i, 4+i)
	}
	write("timing.jsonl", timing.Bytes())
	write("images/best.png", sheet.Bytes())
	write("images/worst.png", sheet.Bytes())
	write("images/heldout_before.png", sheet.Bytes())
	write("images/heldout_000005.png", sheet.Bytes())
	return dir
}

// plotsDrawn are those of the folder above: seven of the ledger's first, then what it also has.
const plotsDrawn = 7 + 6

func TestPage(t *testing.T) {
	dir := run(t)
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for what, n := range map[string]int{
		"<svg": plotsDrawn, "</svg>": plotsDrawn, "data:image/png;base64,": 2 + 2*4, "<rect": 4, "iteration 4</h3>": 1, "iteration 5</h3>": 0, "best of 4": 1, ">task</span>": 1,
		"steps of the sampler": 1, "not read": 0, "class=\"better\">&#43;0.200": 1, "class=\"worse\">-0.150": 1, "class=\"\">&#43;0.020": 1,
		"iteration 5: heldout.clean fell": 1, "gold: never trained on": 2, "<script": 0, "a<b": 0, "http": 0, "NaN": 0,
	} {
		if got := strings.Count(page, what); got != n {
			t.Errorf("%q is there %d times, not %d", what, got, n)
		}
	}
	// Of a run that is under way less is known.
	for _, name := range []string{"result.json", "images/heldout_000005.png", "ledger.jsonl"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := Page(dir); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "config.toml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Page(dir); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("a folder that is none: %v", err)
	}
}

// TestCompare: several runs, the second of which has not ended.
func TestCompare(t *testing.T) {
	first, second := run(t), run(t)
	if err := os.WriteFile(filepath.Join(second, "result.json"), []byte(`{"status": "under way", "rewards": {"a<b": "trained", "clean": "gold"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(experimentText, "steps = 4", "steps = 5", 1)
	if err := os.WriteFile(filepath.Join(second, "config.toml"), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := Compare([]string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for what, n := range map[string]int{
		"<svg": 8, "data:image/png;base64,": 4, "sampler.steps was 4, and is 5": 1, "finished</td>": 1, "under way, or ended by a failure": 1, "class=\"better\">&#43;0.200": 1, "<td>3.75</td>": 0,
		"<td>4.00</td><td>1.00</td><td>0.50</td><td>2.00</td>": 2, "clean -0.150": 1, "<script": 0, "http": 0, "NaN": 0,
	} {
		if got := strings.Count(page, what); got != n {
			t.Errorf("%q is there %d times, not %d", what, got, n)
		}
	}
	if strings.Count(page, ">maps</") > 0 || strings.Count(page, "/maps</td>") != 2 {
		t.Error("two runs of one name cannot be told apart")
	}
	if _, err := Compare([]string{first, t.TempDir()}); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("a folder that is none: %v", err)
	}
}

// TestBrowser: a real browser draws every plot of both pages and has nothing to say.
func TestBrowser(t *testing.T) {
	dir := run(t)
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	both := filepath.Join(t.TempDir(), CompareName)
	if err := WriteCompare(both, []string{dir, run(t)}); err != nil {
		t.Fatal(err)
	}
	browsertest.Draws(t, filepath.Join(dir, Name), plotsDrawn)
	browsertest.Draws(t, both, 8)
}

func TestTicks(t *testing.T) {
	few := Curve{X: []float64{1, 2, 3}, Y: []float64{7, 8, 7}}
	if svg := string((Plot{Curves: []Curve{few}}).SVG()); strings.Contains(svg, ">1.5<") || !strings.Contains(svg, ">2<") {
		t.Error("three iterations have one in between")
	}
	near := Curve{X: []float64{1, 2}, Y: []float64{0.99991, 1.00012}}
	if svg := string((Plot{Curves: []Curve{near}}).SVG()); strings.Count(svg, ">1<") > 1 || !strings.Contains(svg, ">1.00010<") && !strings.Contains(svg, ">1.0001<") || !strings.Contains(svg, ">iteration<") {
		t.Errorf("numbers near one are not told apart, or nothing says what is across: %s", svg)
	}
	few.X[0] = 0.9
	if svg := string((Plot{Curves: []Curve{few}}).SVG()); !strings.Contains(svg, ">1.5<") {
		t.Error("seconds have none in between")
	}

	for _, c := range []struct {
		i    interval
		want []float64
	}{{interval{0, 1}, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}}, {interval{3, 47}, []float64{10, 20, 30, 40}}, {interval{-0.002, 0.003}, []float64{-0.002, -0.001, 0, 0.001, 0.002, 0.003}}} {
		got := c.i.ticks(5)
		if len(got) != len(c.want) {
			t.Fatalf("%v has ticks %v, not %v", c.i, got, c.want)
		}
		for k := range got {
			if math.Abs(got[k]-c.want[k]) > 1e-12 {
				t.Errorf("%v has ticks %v, not %v", c.i, got, c.want)
			}
		}
	}
	for _, i := range []interval{{1, 1}, {0, 0}, {math.Inf(1), math.Inf(-1)}} {
		if w := i.widened(0.1); !(w.low < w.high) {
			t.Errorf("%v becomes %v", i, w)
		}
	}
}

// TestTalks: conversations of the first and the last iteration whose pictures were kept are
// shown, coloured, and no text of a model becomes markup.
func TestTalks(t *testing.T) {
	dir := run(t)
	up := 1.0
	var lines bytes.Buffer
	for _, iteration := range []int{1, 2, 4} {
		l := ledger.TranscriptLine{Iteration: iteration, Text: "which?", Picture: "images/none.png", Advantage: &up, Pieces: []string{"<script>", "seven"},
			Episode: &tools.Transcript{Prompt: 1, Tokens: []int32{1, 2, 3}, LogProb: []float64{0, -1, -0.1}, Turns: []tools.Turn{{From: 1, To: 3, Observed: 3}}, End: tools.Answered}}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(text, '\n'))
	}
	if err := os.WriteFile(filepath.Join(dir, ledger.TranscriptsFile), lines.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	page, err := Page(dir)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"iteration 1, ": true, "iteration 2, ": false, "iteration 4, ": true, "&lt;script&gt;": true, "rgba(0, 114, 178": true, "ZgotmplZ": false} {
		if strings.Contains(string(page), text) != want {
			t.Errorf("the page with %q: %v", text, !want)
		}
	}
}
