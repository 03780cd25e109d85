package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/score"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// drawScenes writes scenes with their captions inside, and returns the folder.
func drawScenes(t *testing.T, captions map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, caption := range captions {
		s, err := scenes.Parse(caption)
		if err != nil {
			t.Fatal(err)
		}
		m := &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: s.Draw(nil)}
		if err := vision.WriteFile(filepath.Join(folder, name), m, vision.Setting{Key: "prompt", Value: caption}); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

var twoScenes = map[string]string{"a.png": `the word "CAT" in red on white`, "b.png": "a red circle left of a blue square on white"}

func scoreLines(t *testing.T, args ...string) (lines []score.Line, code int, said string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), append([]string{"score", "--json"}, args...), strings.NewReader(""), &out, &errs)
	for _, text := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var s score.Line
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		lines = append(lines, s)
	}
	return lines, code, errs.String()
}

func TestScoreFolder(t *testing.T) {
	folder := drawScenes(t, twoScenes)
	lines, code, said := scoreLines(t, "--reward", "scene,ocr", folder, filepath.Join(folder, "none.png"))
	if code != 0 || len(lines) != 3 {
		t.Fatalf("%d, %+v, %s", code, lines, said)
	}
	a, b, none := lines[0], lines[1], lines[2]
	if a.Prompt != twoScenes["a.png"] || a.Scores["ocr"].Value == nil || *a.Scores["ocr"].Value != 1 || *a.Scores["scene"].Value < 0.9 || a.Scores["ocr"].Evidence[1].Text != "CAT" {
		t.Errorf("%+v", a)
	}
	if *b.Scores["scene"].Value < 0.9 || !strings.Contains(b.Scores["ocr"].Missing, "asks for no words") || b.Scores["ocr"].Value != nil {
		t.Errorf("%+v", b)
	}
	if none.Scores["scene"].Missing == "" || none.Scores["ocr"].Missing == "" {
		t.Errorf("%+v", none)
	}
	// Another prompt than the picture's own.
	lines, _, _ = scoreLines(t, "--reward", "ocr", "--prompt", `a "DOG"`, filepath.Join(folder, "a.png"))
	if v := lines[0].Scores["ocr"].Value; v == nil || *v != 0 {
		t.Errorf("%+v", lines)
	}
}

// TestScoreCaptions: a picture that says no prompt itself is judged for the text beside it;
// one without any has no prompt.
func TestScoreCaptions(t *testing.T) {
	folder := drawScenes(t, map[string]string{"own.png": twoScenes["a.png"]})
	s, err := scenes.Parse(twoScenes["b.png"])
	if err != nil {
		t.Fatal(err)
	}
	m := &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: s.Draw(nil)}
	for name, caption := range map[string]string{"beside": twoScenes["b.png"] + "\n", "bad": "\xff", "none": ""} {
		if err := vision.WriteFile(filepath.Join(folder, name+".png"), m); err != nil {
			t.Fatal(err)
		}
		if caption == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name+".txt"), []byte(caption), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "own.txt"), []byte("another text"), 0o644); err != nil {
		t.Fatal(err)
	}
	lines, code, said := scoreLines(t, "--reward", "scene,jpeg", folder)
	if code != 0 || len(lines) != 4 {
		t.Fatalf("%d, %+v, %s", code, lines, said)
	}
	bad, beside, none, own := lines[0], lines[1], lines[2], lines[3]
	if beside.Prompt != twoScenes["b.png"] || beside.Scores["scene"].Value == nil || *beside.Scores["scene"].Value < 0.9 || own.Prompt != twoScenes["a.png"] {
		t.Errorf("%+v and %+v", beside, own)
	}
	if none.Prompt != "" || none.Scores["jpeg"].Value == nil || !strings.Contains(bad.Scores["jpeg"].Missing, "bad.txt: its caption is not UTF-8") {
		t.Errorf("%+v and %+v", none, bad)
	}
}

// watched is a buffer that may be read while it is written.
type watched struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

var answersAt = regexp.MustCompile(`answers at (http://\S+)`)

// A served reward gives the reward's scores, and ends when it is interrupted.
func TestScoreServe(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var said watched
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"score", "--reward", "scene", "--serve", "localhost:0"}, strings.NewReader(""), &bytes.Buffer{}, &said)
	}()
	address := ""
	for start := time.Now(); address == ""; time.Sleep(10 * time.Millisecond) {
		if m := answersAt.FindStringSubmatch(said.String()); m != nil {
			address = m[1]
		}
		if time.Since(start) > 20*time.Second {
			t.Fatalf("it does not answer: %s", said.String())
		}
	}
	folder := drawScenes(t, twoScenes)
	here, _, _ := scoreLines(t, "--reward", "scene", folder)
	there, code, problem := scoreLines(t, "--reward", "http", "--url", address, "--cache", filepath.Join(t.TempDir(), "answers"), folder)
	if code != 0 || len(there) != 2 {
		t.Fatalf("%d, %s", code, problem)
	}
	for i := range there {
		if v := there[i].Scores["http"]; v.Value == nil || *v.Value != *here[i].Scores["scene"].Value || v.Parts["strict"] != 1 || len(v.Evidence) == 0 {
			t.Errorf("%+v, want %+v", v, here[i].Scores["scene"])
		}
	}
	stop()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("it goes on after an interrupt")
	}
}

// TestScoreToys: the embedded stand-ins of clip, aesthetic and ocr judge no picture but drawings, unless they are
// asked for by name; the table names the stand-ins.
func TestScoreToys(t *testing.T) {
	photo := filepath.Join(t.TempDir(), "photo.png")
	if err := vision.WriteFile(photo, vision.New(96, 64)); err != nil {
		t.Fatal(err)
	}
	for reward, remedy := range map[string]string{"aesthetic": "embed:tiny-clip", "clip": "embed:tiny-clip", "ocr": "--path tesseract"} {
		lines, code, said := scoreLines(t, "--reward", reward, "--prompt", `the word "CAT"`, photo)
		if code != exits.Failed || len(lines) != 1 || lines[0].Scores[reward].Value != nil || !strings.Contains(said, "64 x 64") || !strings.Contains(said, remedy) {
			t.Errorf("%s: %d, %+v, %s", reward, code, lines, said)
		}
	}
	lines, code, said := scoreLines(t, "--reward", "aesthetic", "--path", "embed:tiny-clip", photo)
	if code != 0 || lines[0].Scores["aesthetic"].Value == nil {
		t.Errorf("asked for by name: %d, %+v, %s", code, lines, said)
	}
	var out bytes.Buffer
	folder := drawScenes(t, twoScenes)
	if code := execute(t.Context(), []string{"score", "--reward", "clip,scene", folder}, strings.NewReader(""), &out, &out); code != 0 || !strings.Contains(out.String(), "CLIP (embedded toy)") || strings.Contains(out.String(), "missing") {
		t.Errorf("%d, %s", code, out.String())
	}
}
