package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestEntries: every preset is listed once, and under its common configuration it is a file without a mistake, or says
// why it is not run.
func TestEntries(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range entries() {
		if seen[e.preset] {
			t.Errorf("%s is there twice", e.preset)
		}
		seen[e.preset] = true
		_, err := experiment.Parse("methods.toml", []byte(e.base), append([]string{"preset=" + e.preset}, e.sets...))
		if (err != nil) != (e.why != "" && e.preset != "ddpo") { // ddpo's missing settings are found when its model is opened
			t.Errorf("%s: %v", e.preset, err)
		}
	}
	for _, p := range experiment.Presets() {
		if !seen[p.Name.Name] {
			t.Errorf("%s is not listed", p.Name.Name)
		}
	}
	for name := range exceptions {
		if !seen[name] {
			t.Errorf("%s is an exception, and no preset", name)
		}
	}
}

// TestPage: a finished run is in the table with its gain and cost, an interrupted one is not, and a run that goes on
// adds up its time.
func TestPage(t *testing.T) {
	out := t.TempDir()
	finished := func(preset, seed, status, before, after string, seconds float64) {
		dir := filepath.Join(out, preset+"-"+seed)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := `{"status": "` + status + `", "heldout": {"total": {"before": {"mean": ` + before + `}, "after": {"mean": ` + after + `}}}}`
		if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := (entry{preset: preset}).spend(out, int(seed[0]-'0'), seconds/2); err != nil {
				t.Fatal(err)
			}
		}
	}
	finished("flow_grpo", "1", "finished", "0.5", "0.75", 60)
	finished("flow_grpo", "2", "finished", "0.5", "0.25", 180)
	finished("cps", "1", "finished", "0.5", "0.75", 60)
	finished("nft", "1", "under way", "0.5", "0.75", 60)
	if err := os.WriteFile(filepath.Join(out, "gardo-2.log"), []byte("iteration 3\nloss is NaN\n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "gardo-2"+failedSuffix), []byte(lastLine(filepath.Join(out, "gardo-2.log"))), 0o644); err != nil {
		t.Fatal(err)
	}
	page, err := pageOf(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `flow_grpo` | +0.2500, -0.2500 | +0.0000 | 2.0 | +0.0000 | 1.00 | no gain; seeds 1, 2 alone |\n",
		"| `cps` | +0.2500 | +0.2500 | 1.0 | +0.2500 | 0.50 | seed 1 alone |\n",
		"| `nft` | | | | | | not run |\n",
		"| `gardo` | | | | | | not run; seed 2 failed: loss is NaN |\n",
		"| `ddpo` | | | | | | it is for variance-preserving models; the embedded generator is a flow |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestKept: another machine, which has the page's lines and no folder, has the same page.
func TestKept(t *testing.T) {
	out, page := t.TempDir(), filepath.Join(t.TempDir(), "results.md")
	for seed, after := range []string{"0.75", "0.625"} {
		dir := entry{preset: "cps"}.folder(out, seed+1)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := `{"status": "finished", "heldout": {"total": {"before": {"mean": 0.5}, "after": {"mean": ` + after + `}}}}`
		if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := (entry{preset: "cps"}).spend(out, seed+1, 30); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(page, out); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(want), "| `cps` | +0.2500, +0.1250 |") {
		t.Fatalf("%v; the page is\n%s", err, want)
	}
	if err := work("no program", filepath.Join(t.TempDir(), "runs"), page, 0, 1, ""); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != string(want) {
		t.Errorf("%v; from lines alone the page is\n%s", err, got)
	}
	elsewhere := filepath.Join(t.TempDir(), "runs")
	if err := restore(page, elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := (entry{preset: "cps"}).run("no program", elsewhere, 2, 1); err != nil {
		t.Errorf("a seed that has a line was run again: %v", err)
	}
}
