package report

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/training"
)

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
	write("config.toml", []byte("name = \"</pre><script>alert(1)</script>\"\n"))
	m := func(mean float64) training.Measure {
		return training.Measure{Mean: mean, Low: mean - 0.05, High: mean + 0.05, Prompts: 9}
	}
	var ledger bytes.Buffer
	for i := range 5 {
		l := training.Line{Iteration: i + 1, Prompts: []int{1, 2}, Total: training.Spread{Mean: 0.4 + float64(i)/20, Std: 0.1}, Spread: 0.08,
			Rewards: map[string]training.Spread{"a<b": {Mean: 0.5}, "clean": {Mean: 0.9}}, Updates: []training.UpdateLine{{Gradient: 0.1, RatioMean: 1, RatioMost: 1.01}}}
		if i == 4 {
			l.HeldOut = map[string]training.Measure{"a<b": m(0.6), "clean": m(0.8), "total": m(0.6)}
			l.Fired = []string{"heldout.clean fell"}
		}
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		ledger.Write(append(text, '\n'))
	}
	ledger.WriteString(`{"iteration": 6, "tor`) // killed while it wrote
	write("ledger.jsonl", ledger.Bytes())
	result, err := json.Marshal(training.Result{Status: training.Finished, Iterations: 5, Rewards: map[string]string{"a<b": "trained", "clean": "gold"},
		HeldOut: map[string]training.Gain{"a<b": {Before: m(0.4), After: m(0.6)}, "clean": {Before: m(0.95), After: m(0.8)}, "total": {Before: m(0.4), After: m(0.42)}}})
	if err != nil {
		t.Fatal(err)
	}
	write("result.json", result)
	var sheet bytes.Buffer
	if err := png.Encode(&sheet, image.NewGray(image.Rect(0, 0, 40, 20))); err != nil {
		t.Fatal(err)
	}
	write("images/heldout_before.png", sheet.Bytes())
	write("images/heldout_000005.png", sheet.Bytes())
	return dir
}

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
		"<svg": 7, "</svg>": 7, "data:image/png;base64,": 2, "class=\"better\">&#43;0.200": 1, "class=\"worse\">-0.150": 1, "class=\"\">&#43;0.020": 1,
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

// TestBrowser: a real browser draws every plot and has nothing to say.
func TestBrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("pages are opened in a browser where there is one: no chromium or google-chrome on PATH")
	}
	dir := run(t)
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+filepath.Join(dir, Name))
	cmd.WaitDelay = 10 * time.Second
	var dom, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &dom, &log
	if err := cmd.Run(); err != nil {
		t.Skipf("%s does not run here: %v", browser, err)
	}
	if n := strings.Count(dom.String(), "<svg"); n != 7 {
		t.Errorf("%d plots of 7 are drawn", n)
	}
	if strings.Contains(log.String(), "CONSOLE") {
		t.Errorf("the browser's console:\n%s", log.String())
	}
}

func TestTicks(t *testing.T) {
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
