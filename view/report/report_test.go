package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
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
			Pictures: map[string]float64{"brightness": 120, "saturation": 0.3, "contrast": 40}, Selection: &ledger.SelectionLine{Rolls: 2, Groups: 1, Learned: 2}}
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

// documents are the input of a page's script.
func documents(t *testing.T, page []byte) data {
	t.Helper()
	_, text, ok := strings.Cut(string(page), `<script type="application/json" id="data">`)
	text, _, closed := strings.Cut(text, "</script>")
	var d data
	if err := json.Unmarshal([]byte(text), &d); err != nil || !ok || !closed {
		t.Fatalf("the page's data: %v", err)
	}
	return d
}

// titles are the plots' that a page has.
func titles(d *Document) string {
	var all []string
	for _, p := range d.Plots {
		all = append(all, p.Title)
	}
	return strings.Join(all, "; ")
}

func TestPage(t *testing.T) {
	dir := run(t)
	must(t, os.WriteFile(filepath.Join(dir, ledger.FleetFile), []byte(`{"worker":"one</script>","seconds":2,"bytes":1000,"at":10}`+"\n"), 0o644))
	must(t, Write(dir))
	page, err := os.ReadFile(filepath.Join(dir, Name))
	must(t, err)
	text := string(page)
	for what, n := range map[string]int{"data:image/png;base64,": 2 + 2*4, "alert(1)</script>": 0, "a<b": 0, "The MIT License": 1, "http-equiv": 1, "src=": 0, "@import": 0, "url(": 0} {
		if got := strings.Count(strings.ReplaceAll(text, "script-src=", ""), what); got != n {
			t.Errorf("%q is there %d times, not %d", what, got, n)
		}
	}
	d := documents(t, page).Runs[0]
	if d.Status != ledger.Finished || d.Live || d.Iterations != 5 || d.Planned != 5 || d.Trained != "a<b" || d.Seconds != 30 {
		t.Errorf("the run is %+v", d.Summary)
	}
	if len(d.Workers) != 1 || d.Workers[0].Jobs != 1 {
		t.Errorf("workers: %+v", d.Workers)
	}
	if len(d.Plots) != 15 || !strings.Contains(titles(d), "gold: never trained on") || !strings.Contains(titles(d), "Parts of “a<b”") {
		t.Errorf("curves: %s", titles(d))
	}
	if len(d.Kept) != 8 || d.Kept[7].Iteration != 4 || len(d.Evaluations) != 2 || d.Evaluations[1].Iteration != 5 { // the fifth's picture lies beside the folder
		t.Errorf("%d pictures were kept, of evaluations %+v", len(d.Kept), d.Evaluations)
	}
	gains := fmt.Sprintln(d.Gains[0].Name, d.Gains[0].Rose(), d.Gains[1].Name, d.Gains[1].Rose(), d.Gains[2].Name, d.Gains[2].Fell())
	if gains != "total false a<b true clean true\n" || d.Gains[0].Paired {
		t.Errorf("gains: %s, %+v", gains, d.Gains)
	}
	if v := d.Conclusion; !strings.HasPrefix(v.Text, "No gain beyond chance: +0.020") || len(v.Notes) != 2 || !strings.Contains(v.Notes[0], "clean fell by 0.150 (95 %: 0.079 to 0.221)") {
		t.Errorf("the verdict is %+v", v)
	}
	if len(d.Events) != 1 || d.Events[0] != (Event{5, "heldout.clean fell"}) || len(d.Plan.Stages) != 1 || d.Plan.Stages[0].Title != "iterations 1 to 5" || strings.Contains(fmt.Sprint(d.Plan.Warnings), "not read") {
		t.Errorf("%+v, %+v", d.Events, d.Plan)
	}
	// Of a run that is under way less is known.
	for _, name := range []string{"result.json", "images/heldout_000005.png", "ledger.jsonl"} {
		must(t, os.Remove(filepath.Join(dir, name)))
		if _, err := Page(dir); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "config.toml")))
	if _, err := Page(dir); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("a folder that is none: %v", err)
	}
}

// TestCompare: several runs, the second of which has not ended.
func TestCompare(t *testing.T) {
	first, second := run(t), run(t)
	must(t, os.WriteFile(filepath.Join(second, "result.json"), []byte(`{"status": "under way", "rewards": {"a<b": "trained", "clean": "gold"}}`), 0o644))
	changed := strings.Replace(experimentText, "steps = 4", "steps = 5", 1)
	must(t, os.WriteFile(filepath.Join(second, "config.toml"), []byte(changed), 0o644))
	page, err := Compare([]string{first, second})
	must(t, err)
	d := documents(t, page)
	if len(d.Runs) != 2 || !d.Alike || len(d.Differences) != 1 || d.Differences[0].Lines[0] != "sampler.steps was 4, and is 5" || d.Runs[0].Live || !d.Runs[1].Live {
		t.Errorf("the page has %+v", d.Differences)
	}
	if a, b := d.Runs[0], d.Runs[1]; a.ID == b.ID || a.Name == b.Name || !strings.HasSuffix(a.Name, "/maps") {
		t.Errorf("%q and %q cannot be told apart", a.Name, b.Name)
	}
	if _, err := Compare([]string{first, t.TempDir()}); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("a folder that is none: %v", err)
	}
}

// TestPaired: where the folder has the scores of single held-out prompts, the interval is of their differences. Prompts
// that differ much and all rise by the same have a significant rise.
func TestPaired(t *testing.T) {
	dir := run(t)
	var lines bytes.Buffer
	for _, iteration := range []int{0, 5} {
		for p := range 9 {
			v := 0.4 + float64(p-4)/10 + float64(iteration)*0.004 + float64(p%2)*0.001*float64(iteration)/5
			must(t, json.NewEncoder(&lines).Encode(ledger.HeldOutLine{Iteration: iteration, Prompt: p, Text: "a", Total: &v}))
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, ledger.HeldOutFile), lines.Bytes(), 0o644))
	path := filepath.Join(dir, "result.json")
	text, err := os.ReadFile(path)
	must(t, err)
	var result ledger.Result
	must(t, json.Unmarshal(text, &result))
	total := result.HeldOut["total"]
	total.After.Mean = total.Before.Mean + 0.02 + 4*0.001/9
	text, err = json.Marshal(result)
	must(t, err)
	must(t, os.WriteFile(path, text, 0o644))
	r, err := Read(dir)
	must(t, err)
	g := Summarise(r).Gains[0]
	if !g.Paired || !g.Rose() || g.High-g.Low > 0.002 {
		t.Errorf("the gain is %+v", g)
	}
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

// TestTalks: conversations of the first and the last iteration whose pictures were kept are shown, with the pictures
// that the model saw at each turn.
func TestTalks(t *testing.T) {
	dir := run(t)
	up := 1.0
	var lines bytes.Buffer
	for _, iteration := range []int{1, 2, 4} {
		l := ledger.TranscriptLine{Iteration: iteration, Text: "which?", Picture: "images/none.png", Saw: []string{"images/best.png", "images/worst.png"}, Advantage: &up, Pieces: []string{"<script>", "seven"},
			Episode: &tools.Transcript{Prompt: 1, Tokens: []int32{1, 2, 3}, LogProb: []float64{0, -1, -0.1}, Turns: []tools.Turn{{From: 1, To: 3, Observed: 3}}, End: tools.Answered,
				Shots: []tools.Shot{{Turn: -1, Width: 80, Height: 40, ShownWidth: 40, ShownHeight: 20}, {Turn: 0, Width: 9, Height: 9, ShownWidth: 9, ShownHeight: 9}}}}
		must(t, json.NewEncoder(&lines).Encode(l))
	}
	must(t, os.WriteFile(filepath.Join(dir, ledger.TranscriptsFile), lines.Bytes(), 0o644))
	page, err := Page(dir)
	must(t, err)
	if strings.Contains(string(page), `"<script>`) {
		t.Error("what a model said is markup")
	}
	all := documents(t, page).Runs[0].Talks
	if len(all) != 2 || all[0].Iteration != 1 || all[1].Iteration != 4 || all[0].Picture != "" {
		t.Fatalf("conversations %+v", all)
	}
	one := all[0]
	if len(one.Given) != 1 || one.Given[0].From != "80 × 40" || one.Given[0].Width != 40 || len(one.Turns[0].Saw) != 1 || one.Turns[0].Saw[0].From != "" {
		t.Errorf("the model saw %+v, and then %+v", one.Given, one.Turns[0].Saw)
	}
	if w := one.Turns[0].Words; len(w) != 2 || w[0].Text != "<script>" || math.Abs(w[0].P-math.Exp(-1)) > 1e-12 {
		t.Errorf("words %+v", w)
	}
}

// TestThinned: a curve with fewer points keeps its ends' stretches, its spikes and its gaps.
func TestThinned(t *testing.T) {
	var c Curve
	for i := range 5000 {
		y := math.Sin(float64(i) / 300)
		switch i {
		case 1234:
			y = 50
		case 4000:
			y = math.NaN()
		}
		c.X, c.Y = append(c.X, float64(i)), append(c.Y, y)
	}
	few := c.thinned(400)
	spikes, gaps := 0, 0
	for i, y := range few.Y {
		if y == 50 && few.X[i] == 1234 {
			spikes++
		}
		if math.IsNaN(y) {
			gaps++
		}
		if i > 0 && few.X[i] <= few.X[i-1] {
			t.Fatalf("point %d is at %v after %v", i, few.X[i], few.X[i-1])
		}
	}
	if len(few.X) > 400 || spikes != 1 || gaps != 1 {
		t.Errorf("%d points, %d spikes, %d gaps", len(few.X), spikes, gaps)
	}
	text, err := json.Marshal(few)
	if err != nil || strings.Count(string(text), "null") != 1 {
		t.Errorf("%v: %s", err, text[:200])
	}
}

// TestReaderWorkers: a page that is read again and again reads the new lines of workers, and counts nothing twice.
func TestReaderWorkers(t *testing.T) {
	dir := run(t)
	r := NewReader(dir)
	jobs := func() (n int) {
		t.Helper()
		d, err := r.Document(embedding(dir, nil))
		must(t, err)
		for _, w := range d.Workers {
			n += w.Jobs
		}
		return n
	}
	if n := jobs(); n != 0 {
		t.Errorf("%d jobs without a fleet", n)
	}
	line := `{"worker":"one","seconds":2,"bytes":1000,"at":10}` + "\n"
	path := filepath.Join(dir, ledger.FleetFile)
	must(t, os.WriteFile(path, []byte(line+line), 0o644))
	first, again := jobs(), jobs()
	must(t, os.WriteFile(path, []byte(line+line+line+line[:9]), 0o644))
	if n := jobs(); first != 2 || again != 2 || n != 3 {
		t.Errorf("%d, %d and %d jobs, want 2, 2 and 3", first, again, n)
	}
}

// TestLinks: a page shows nothing that lies beside the run's folder, and writes over nothing there.
func TestLinks(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.html.part", "images/heldout_before.png", "ledger.jsonl", "heldout.jsonl"} {
		dir := run(t)
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.RemoveAll(path), os.Symlink(secret, path)); err != nil {
			t.Skipf("links cannot be made here: %v", err)
		}
		if err := Write(dir); err == nil || !strings.Contains(err.Error(), filepath.Base(name)+" is a link") {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(secret); err != nil || string(text) != "a secret" {
			t.Fatalf("%s: %q, %v", name, text, err)
		}
	}
	dir := run(t)
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, "images", "below")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"images/below/secret", "../" + filepath.Base(filepath.Dir(secret)) + "/secret", secret} {
		if text, err := inside(dir, name); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

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

// TestSlightFall: a page does not warn of a gold reward that fell by less than a hundredth of itself, however surely.
func TestSlightFall(t *testing.T) {
	at := func(mean float64) *ledger.Measure {
		return &ledger.Measure{Mean: mean, Low: mean - 1e-4, High: mean + 1e-4, Prompts: 9}
	}
	for after, notes := range map[float64]int{0.974: 0, 0.96: 1, 0.99: 0} {
		g := gainOf("shade", "gold", ledger.Gain{Before: at(0.978), After: at(after)}, nil, nil)
		if v := (&Run{}).conclusion([]Gain{g}, 0); len(v.Notes) != notes {
			t.Errorf("from 0.978 to %v: %q", after, v.Notes)
		}
	}
}
