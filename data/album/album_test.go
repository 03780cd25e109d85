package album

import (
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// shelf is a folder with pictures of one colour: red.png of 8 x 4, blue.png of 4 x 4.
func shelf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, m := range map[string]*vision.Image{"red.png": vision.NewFilled(8, 4, color.RGBA{255, 0, 0, 255}), "blue.png": vision.NewFilled(4, 4, color.RGBA{0, 0, 255, 255})} {
		if err := vision.WriteFile(filepath.Join(dir, name), m); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLines(t *testing.T) {
	dir := shelf(t)
	pages, err := Open(write(t, filepath.Join(dir, "pairs.jsonl"), `{"prompt": "red", "a": "red.png", "b": "blue.png", "better": "a", "meta": {"n": 1}}

{"prompt": "blue", "a": "red.png", "b": "blue.png", "better": "b"}
{"prompt": "either", "a": "red.png", "b": "blue.png", "better": "tie"}
{"prompt": "alone", "image": "blue.png"}
{"prompt": "half", "image": "blue.png", "score": 0.5}
`))
	if err != nil || len(pages) != 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for i, want := range [][]float64{{1, 0}, {0, 1}, {0, 0}, {1}, {0.5}} {
		if got := pages[i].Scores; len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("page %d has scores %v, not %v", i, got, want)
		}
	}
	if pages[0].Text != "red" || string(pages[0].Meta.Map()["n"]) != "1" {
		t.Errorf("%+v", pages[0].Prompt)
	}
	for _, size := range [][2]int{{4, 4}, {8, 4}, {16, 16}, {3, 5}} {
		m, err := pages[0].Picture(0, size[0], size[1])
		if err != nil || m.Width != size[0] || m.Height != size[1] || m.Pix[0] != 255 || m.Pix[1] != 0 || m.Pix[len(m.Pix)-3] != 255 {
			t.Errorf("at %v: %v", size, err)
		}
	}
	if m, err := pages[0].Picture(1, 4, 4); err != nil || m.Pix[2] != 255 {
		t.Errorf("the second of a pair: %v", err)
	}
	if _, err := pages[3].Picture(1, 4, 4); err == nil {
		t.Error("a picture that is not there was shown")
	}
}

func TestFolder(t *testing.T) {
	dir := shelf(t)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "blue.txt is not there") {
		t.Errorf("without captions: %v", err)
	}
	write(t, filepath.Join(dir, "blue.txt"), "a blue one\n")
	write(t, filepath.Join(dir, "red.txt"), "a red one")
	pages, err := Open(dir)
	if err != nil || len(pages) != 2 || pages[0].Text != "a blue one" || pages[1].Scores[0] != 1 {
		t.Fatalf("%v, %v", pages, err)
	}
}

// TestMistakes: an error names its line, and nothing outside of the folder is read.
func TestMistakes(t *testing.T) {
	dir := shelf(t)
	write(t, filepath.Join(filepath.Dir(dir), "outside.png"), "x")
	if err := os.Symlink(filepath.Join(filepath.Dir(dir), "outside.png"), filepath.Join(dir, "link.png")); err != nil {
		t.Logf("no link is tried: %v", err)
	}
	for text, says := range map[string]string{
		`{"prompt": "x", "a": "red.png"}`:                                                     ":1: it is neither",
		`{"prompt": "x", "image": "red.png", "better": "a"}`:                                  "neither",
		`{"prompt": "x", "a": "red.png", "b": "blue.png", "better": "c"}`:                     `"better" is "c"`,
		`{"prompt": "x", "a": "red.png", "b": "blue.png"}`:                                    `"better" is ""`,
		`{"prompt": " ", "image": "red.png"}`:                                                 "empty",
		`{"prompt": "x", "image": "green.png"}`:                                               "green.png",
		`{"prompt": "x", "image": "../outside.png"}`:                                          "escapes",
		`{"prompt": "x", "image": "link.png"}`:                                                "link.png",
		`{"prompt": "x", "image": "."}`:                                                       "is no file",
		`{"prompt": "x", "imgae": "red.png"}`:                                                 "hint: a line is",
		"{\"prompt\": \"x\", \"image\": \"red.png\"}\n{\"prompt\": \"x\", \"image\": \"no\"}": ":2: ",
		`{"prompt": "x", "image": "red.png"} {}`:                                              "follows",
		"":                                                                                    "there is no picture",
	} {
		if _, err := Open(write(t, filepath.Join(dir, "pairs.jsonl"), text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; %q was expected", text, err, says)
		}
	}
	for name, says := range map[string]string{"embed:pairs": scenePairs, filepath.Join(dir, "red.png"): ".jsonl", filepath.Join(dir, "nowhere"): "nowhere"} {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	pages, err := Open(write(t, filepath.Join(dir, "one.jsonl"), `{"prompt": "x", "image": "one.jsonl"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pages[0].Picture(0, 4, 4); err == nil || !strings.Contains(err.Error(), "one.jsonl") {
		t.Errorf("a file that is no picture: %v", err)
	}
}

// TestScenePairs: the better picture of each embedded pair matches the caption.
func TestScenePairs(t *testing.T) {
	pages, err := Open(scenePairs)
	if err != nil || len(pages) < 200 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	right, first := 0, 0
	for _, p := range pages {
		s, err := scenes.Parse(p.Text)
		if err != nil {
			t.Fatal(err)
		}
		var task [2]float64
		for i := range task {
			m, err := p.Picture(i, scenes.Size, scenes.Size)
			if err != nil {
				t.Fatal(err)
			}
			task[i] = s.Score(m.Pix).Task
		}
		if (task[0] > task[1]) == (p.Scores[0] > p.Scores[1]) {
			right++
		}
		first += int(p.Scores[0])
	}
	if n := len(pages); right < n*95/100 || first < n/3 || first > 2*n/3 {
		t.Errorf("of %d pairs %d are right, and in %d the first is better", n, right, first)
	}
}
