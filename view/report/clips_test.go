package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/internal/rigs/browsertest"
	"github.com/darkroom-rl/darkroom/internal/rigs/runtest"
)

// TestClipsPlay: held-out clips move on the page, each its part of the sheet,
// and stand still for readers who want rest.
func TestClipsPlay(t *testing.T) {
	b := browsertest.Start(t)
	dir := runtest.Write(t, filepath.Join(t.TempDir(), "moves"), runtest.Options{Iterations: 2, Every: 1, Prompts: 3, Clips: true})
	must(t, Write(dir))
	b.Size(700, 900, false, false)
	b.Open("file://" + filepath.Join(dir, Name))
	b.Until(`[...document.querySelectorAll(".pair .sprite[data-drawn=yes] img")].filter((i) => i.complete && i.naturalWidth > 0).length === 6`, 20*time.Second)
	b.Eval(`document.querySelector("#pictures").scrollIntoView()`, nil)
	b.Shot(*shots, "clips", 2000)
	folder := t.TempDir()
	b.Shot(folder, "first", 900)
	first, err := os.ReadFile(filepath.Join(folder, "first.png"))
	must(t, err)
	for began := time.Now(); ; {
		b.Shot(folder, "second", 900)
		second, err := os.ReadFile(filepath.Join(folder, "second.png"))
		must(t, err)
		if !bytes.Equal(first, second) {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("nothing moves")
		}
	}
	var same bool
	b.Eval(`new Set([...document.querySelectorAll(".pair .sprite img")].map((i) => i.src)).size === 2`, &same)
	if !same {
		t.Error("the clips of a sheet are read more than once")
	}
	b.Eval(`document.querySelector(".pair").click()`, nil)
	b.Until(`document.querySelectorAll("dialog[open] .stage .sprite img").length === 2`, 5*time.Second)
	b.Until(`document.querySelectorAll("dialog[open] svg.boxes[data-reward=flow]:not([hidden]) .found polyline.line").length === 2`, 5*time.Second)
	b.Shot(*shots, "flow", 900)
	b.Eval(`document.querySelector("dialog[open] [data-choice='']").click()`, nil)
	b.Until(`document.querySelectorAll("dialog[open] svg.boxes[hidden]").length === 2`, 5*time.Second)
	if m := b.Messages(); len(m) > 0 {
		t.Errorf("the console says %s", m)
	}
}

// TestTrails: the flow of a sheet's clips is with their samples; a file for another number of clips is left out, and
// so is one for which the page has no bytes.
func TestTrails(t *testing.T) {
	dir := runtest.Write(t, filepath.Join(t.TempDir(), "moves"), runtest.Options{Iterations: 1, Every: 1, Prompts: 3, Clips: true})
	first := func(left *budget) Evaluation {
		r, err := Read(dir)
		must(t, err)
		all, err := r.evaluations(func(name string) string { return name }, Limits{Evaluations: -1, Iterations: -1, Bytes: left})
		must(t, err)
		return all[0]
	}
	for _, s := range first(nil).Samples {
		if !bytes.Contains(s.Trails, []byte("points")) {
			t.Errorf("clip %d has the trails %s", s.Prompt, s.Trails)
		}
	}
	const name = "heldout_before.trails.json"
	at, err := os.Stat(filepath.Join(dir, "images", name))
	must(t, err)
	for bytes, want := range map[budget]bool{budget(at.Size()): true, budget(at.Size()) - 1: false} {
		left := bytes
		if s := first(&left).Samples[0]; (s.Trails != nil) != want || want && left != 0 {
			t.Errorf("of %d bytes for %d there are %d left; trails %s", bytes, at.Size(), left, s.Trails)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "images", name), []byte("[[]]"), 0o644))
	if s := first(nil).Samples[0]; s.Trails != nil {
		t.Errorf("trails of another sheet: %s", s.Trails)
	}
}

// TestAnimated: an animated PNG differs from one that is not, and from other files.
func TestAnimated(t *testing.T) {
	root := t.TempDir()
	still := runtest.Write(t, filepath.Join(root, "still"), runtest.Options{Iterations: 1, Every: 1, Prompts: 1})
	moves := runtest.Write(t, filepath.Join(root, "moves"), runtest.Options{Iterations: 1, Every: 1, Prompts: 1, Clips: true})
	const sheet = "images/heldout_before.png"
	if animated(still, sheet) || !animated(moves, sheet) || animated(moves, "images/none.png") || animated(moves, "config.toml") || animated(root, "nowhere/../../"+sheet) {
		t.Errorf("%v %v", animated(still, sheet), animated(moves, sheet))
	}
}
