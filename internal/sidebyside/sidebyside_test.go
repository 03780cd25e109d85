package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

func parsed(t *testing.T, dir string) *experiment.Experiment {
	t.Helper()
	e, err := experiment.Parse("peer.toml", experimentText, []string{"run.seed=3", fmt.Sprintf("rollout.prompts=%q", filepath.Join(dir, "train.txt")), fmt.Sprintf("evaluate.prompts=%q", filepath.Join(dir, "heldout.txt"))})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestJob: the other program's input describes the experiment.
func TestJob(t *testing.T) {
	dir := t.TempDir()
	train, heldOut := captions()
	if err := writeCaptions(dir, train, heldOut); err != nil {
		t.Fatal(err)
	}
	e := parsed(t, dir)
	list, err := prompts.Open(e.Rollout.Prompts[0])
	if err != nil || len(list) != 240 || list[7].Text != train[7].Prompt || len(heldOut) != 48 {
		t.Fatalf("%d captions, %v", len(list), err)
	}
	for _, s := range slices.Concat(train, heldOut) {
		if _, err := scenes.Parse(s.Prompt); err != nil || len(s.Objects) < 2 {
			t.Errorf("%s: %d objects, %v", s.Prompt, len(s.Objects), err)
		}
	}
	j, err := newJob(e, 2, train, heldOut)
	if err != nil {
		t.Fatal(err)
	}
	if len(j.Iterations) != 60 || len(j.Sigmas) != 11 || j.Sigmas[0] != 1 || j.Sigmas[10] != 0 || len(j.Targets) != 8 || j.Clip != 5e-3 || j.AdvEps != 1e-4 {
		t.Errorf("%d iterations, sigmas %v, %d targets", len(j.Iterations), j.Sigmas, len(j.Targets))
	}
	starts := map[int]bool{}
	for i, it := range j.Iterations {
		if len(it.Prompts) != 6 || len(it.Window) != 4 || it.Window[3] != it.Window[0]+3 || it.Window[0] > 2 || len(it.Rates) != 2 || it.Rates[0] > 1e-3 || it.Rates[1] < 1e-4 {
			t.Errorf("iteration %d: %+v", i, it)
		}
		starts[it.Window[0]] = true
	}
	if len(starts) != 3 || j.Iterations[0].Rates[0] != 1e-3 {
		t.Errorf("windows begin at %v", starts)
	}
}

func TestTable(t *testing.T) {
	m := measured{FirstReward: 0.5, Seconds: map[string]float64{"roll": 1, "score": 0.25, "train": 2, "all": 3.25}, HeldOut: []point{{0, 0.4}, {50, 0.5}, {100, 0.7}}}
	for at, want := range map[float64]float64{0: 0.4, 25: 0.45, 50: 0.5, 75: 0.6, 100: 0.7} {
		if got := m.at(at); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v: %v, not %v", at, got, want)
		}
	}
	if !math.IsNaN(m.at(101)) {
		t.Error("there is a reward after the last evaluation")
	}
	slow := measured{FirstReward: 0.5, Seconds: map[string]float64{"roll": 2, "score": 0.5, "train": 4, "all": 6.5}, HeldOut: []point{{0, 0.4}, {200, 0.6}}}
	var out bytes.Buffer
	if err := write(&out, []measured{m}, []measured{slow}, 60); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"0.50\n", "after 60 s of training", "+0.080", "at the end", "+0.100"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is not in\n%s", says, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "after 120 s") {
		t.Errorf("the table is\n%s", out.String())
	}
}

func TestReadLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	text := `{"evaluated":0,"seconds":0,"mean":0.4}
{"iteration":1,"reward":0.3,"roll":9,"score":9,"train":9}
{"iteration":2,"reward":0.5,"roll":1,"score":0.5,"train":2}
{"iteration":3,"reward":0.5,"roll":2,"score":0.5,"train":3}
{"evaluated":3,"seconds":36,"mean":0.6}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := readLines(path)
	if err != nil || m.FirstReward != 0.3 || m.Seconds["roll"] != 1.5 || m.Seconds["all"] != 4.5 || len(m.HeldOut) != 2 || m.HeldOut[1] != (point{36, 0.6}) {
		t.Errorf("%+v, %v", m, err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readLines(path); err == nil {
		t.Error("a file without lines is a run")
	}
}
