package score

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestDraw: a copy with boxes for each score with some in its evidence, and the picture itself untouched.
func TestDraw(t *testing.T) {
	m := vision.New(40, 40)
	with := Line{File: "a/b.png", item: rewards.Item{Image: m}}
	with.add("layout", rewards.Result{Score: rewards.Score{Value: 1, Evidence: []rewards.Evidence{
		{What: "found", Text: "dog", Box: &boxes.Box{5, 5, 30, 30}, Value: 0.5}, {What: "asked for", Text: "dog", Box: &boxes.Box{2, 2, 20, 20}}, {What: "wrong", Text: "a word"}}}})
	with.add("jpeg", rewards.Result{Score: rewards.Score{Value: 1}})
	without := Line{File: "c.png"}
	without.add("layout", rewards.Result{Score: rewards.Score{Value: 0}})
	dir := filepath.Join(t.TempDir(), "boxes")
	n, err := draw(dir, []Line{with, without}, []string{"layout", "jpeg"})
	files, _ := os.ReadDir(dir)
	if err != nil || n != 1 || len(files) != 1 || files[0].Name() != "0000-b.layout.png" {
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
