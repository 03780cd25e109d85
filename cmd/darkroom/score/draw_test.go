package score

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// TestDraw: a copy with boxes for each score with some in its evidence, and the picture itself untouched.
func TestDraw(t *testing.T) {
	m := vision.New(40, 40)
	with := Line{File: "a/b.png", item: rewards.Item{Image: m}}
	with.add("layout", rewards.Result{Score: rewards.Score{Value: 1, Evidence: []evidence.Reason{
		{What: "found", Text: "dog", Box: &boxes.Box{5, 5, 30, 30}, Value: 0.5}, {What: "asked for", Text: "dog", Box: &boxes.Box{2, 2, 20, 20}}, {What: "wrong", Text: "a word"}}}})
	with.add("jpeg", rewards.Result{Score: rewards.Score{Value: 1}})
	without := Line{File: "c.png"}
	without.add("layout", rewards.Result{Score: rewards.Score{Value: 0}})
	reply := Line{File: "items.jsonl:1", item: rewards.Item{Transcript: &rewards.Transcript{Shown: []*vision.Image{m}}}}
	reply.add("accuracy", rewards.Result{Score: rewards.Score{Evidence: []evidence.Reason{{What: "found", Box: &boxes.Box{5, 5, 30, 30}}}}})
	if n, _, err := draw(t.Context(), t.TempDir(), []Line{reply}, []string{"accuracy"}); err != nil || n != 1 {
		t.Errorf("of a reply: %d, %v", n, err)
	}
	dir := filepath.Join(t.TempDir(), "boxes")
	n, moving, err := draw(t.Context(), dir, []Line{with, without}, []string{"layout", "jpeg"})
	files, _ := os.ReadDir(dir)
	if err != nil || n != 1 || moving != 0 || len(files) != 1 || files[0].Name() != "0000-b.layout.png" {
		t.Fatalf("%d, %v, %v", n, files, err)
	}
	drawn, err := vision.Open(filepath.Join(dir, files[0].Name()), vision.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	lit := 0
	for i, v := range drawn.Pix {
		if v != m.Pix[i] {
			lit++
		}
	}
	if lit < 60 || m.Pix[3*(5*40+10)] != 0 {
		t.Errorf("%d bytes differ, and the picture's own is %d", lit, m.Pix[3*(5*40+10)])
	}
	if marks := marks(with.Scores["layout"].Evidence); len(marks) != 2 || marks[0].Dashed || !marks[1].Dashed || marks[0].Label != "dog 0.50" {
		t.Errorf("%+v", marks)
	}
}

// TestDrawFlow: a clip with its flow for each reward that reads it, which plays, and none where a score is missing.
func TestDrawFlow(t *testing.T) {
	s := moving.All()[0]
	with := Line{File: "clip.gif", item: rewards.Item{Clip: moving.Small.Draw(s, moving.Place{Half: 5})}}
	for _, name := range []string{"heading", "flicker"} {
		with.add(name, rewards.Result{Score: rewards.Score{Value: 1}})
	}
	with.add("motion", rewards.Result{Missing: errors.New("none")})
	dir := t.TempDir()
	if n, clips, err := draw(t.Context(), dir, []Line{with}, []string{"heading", "flicker", "motion"}); err != nil || n != 0 || clips != 1 {
		t.Fatalf("%d pictures and %d clips, %v", n, clips, err)
	}
	if c, err := video.Open(filepath.Join(dir, "0000-clip.heading.png"), video.Limits{}); err != nil || len(c.Frames) != moving.Small.Frames {
		t.Errorf("%v", err)
	}
}
