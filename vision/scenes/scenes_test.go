package scenes

import (
	"encoding/json"
	"image/png"
	"math"
	"os"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// recorded are the pictures and scores of the PyTorch peer's scenes.py: drawn as asked, drawn
// as another scene, blurred, noisy.
type recorded struct {
	Prompt, Family, Shown string
	Plain                 bool // the canonical picture of Shown, untouched
	Task, Strict, Clean   float64
	Total                 float64
}

func load(t *testing.T) (rows []recorded, pictures [][]uint8) {
	t.Helper()
	data, err := os.ReadFile("testdata/scores.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/pictures.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sheet, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		px := make([]uint8, 0, Size*Size*3)
		for p := range Size * Size {
			r, g, b, _ := sheet.At(i%20*Size+p%Size, i/20*Size+p/Size).RGBA()
			px = append(px, uint8(r>>8), uint8(g>>8), uint8(b>>8))
		}
		pictures = append(pictures, px)
	}
	return rows, pictures
}

func TestScoresAreThePeers(t *testing.T) {
	rows, pictures := load(t)
	strict := 0
	for i, r := range rows {
		s, err := Parse(r.Prompt)
		if err != nil {
			t.Fatal(err)
		}
		if string(s.Family) != r.Family || s.Prompt != r.Prompt {
			t.Errorf("%q was read as %s, %q", r.Prompt, s.Family, s.Prompt)
		}
		got := s.Score(pictures[i])
		want := Score{Task: r.Task, Strict: r.Strict == 1, Clean: r.Clean, Total: r.Total}
		if got.Strict != want.Strict || math.Abs(got.Task-want.Task) > 1e-7 || math.Abs(got.Clean-want.Clean) > 1e-6 || math.Abs(got.Total-want.Total) > 1e-6 {
			t.Errorf("picture %d, %q: %+v, the peer says %+v", i, r.Prompt, got, want)
		}
		if got.Strict {
			strict++
		}
	}
	if strict < 50 || strict > 150 {
		t.Errorf("%d of %d pictures are right: the cases do not tell much", strict, len(rows))
	}
}

// TestDrawingIsThePeers compares canonical pictures: interiors are equal, edges may differ by
// a part of their coverage.
func TestDrawingIsThePeers(t *testing.T) {
	rows, pictures := load(t)
	drawn := 0
	for i, r := range rows {
		if !r.Plain {
			continue
		}
		drawn++
		s, err := Parse(r.Shown)
		if err != nil {
			t.Fatal(err)
		}
		px := s.Draw(nil)
		off, worst := 0, 0
		for p := range px {
			d := int(px[p]) - int(pictures[i][p])
			off += max(d, -d)
			worst = max(worst, d, -d)
		}
		if mean := float64(off) / float64(len(px)); mean > 0.25 || worst > 80 {
			t.Errorf("picture %d, %q: off by %.3f in the mean, %d at most", i, r.Shown, mean, worst)
		}
	}
	if drawn == 0 {
		t.Error("no canonical picture among the cases")
	}
}

func TestCanonicalScenesAreRight(t *testing.T) {
	jittered := 0
	for i := range 500 {
		r := rng.New(3).With("scene").Sample(i)
		s := Random(r.Draw(), Everything)
		if got, err := Parse(s.Prompt); err != nil || got.Prompt != s.Prompt || len(got.Objects) != len(s.Objects) || got.Box != s.Box {
			t.Fatalf("%q is read as %+v, %v", s.Prompt, got, err)
		}
		if c := s.Score(s.Draw(nil)); !c.Strict || c.Task < 0.9 || c.Clean < 0.9 {
			t.Errorf("%q scores %+v as it should be drawn", s.Prompt, c)
		}
		if s.Score(s.Draw(Jitter(rng.New(4).Sample(i).Draw()))).Strict {
			jittered++
		}
	}
	// Not all: the edge of yellow on black is a line of green, of objects too many.
	if jittered < 475 {
		t.Errorf("%d of 500 jittered scenes are right", jittered)
	}
}

func TestFamiliesAndSplit(t *testing.T) {
	n, held := map[Family]int{}, 0
	for i := range 4000 {
		s := Random(rng.New(9).Sample(i).Draw(), Everything)
		n[s.Family]++
		if HeldOut(s.Prompt) {
			held++
		}
	}
	for f, share := range map[Family]float64{One: 0.1, Relation: 0.45, Count: 0.2, Word: 0.25} {
		if got := float64(n[f]) / 4000; math.Abs(got-share) > 0.03 {
			t.Errorf("%s: a share of %.3f, not %.2f", f, got, share)
		}
	}
	if got := float64(held) / 4000; math.Abs(got-0.125) > 0.03 {
		t.Errorf("%.3f are held out, not an eighth", got)
	}
}

func TestCorruptChangesOneAttribute(t *testing.T) {
	kinds := map[Family]int{}
	for i := range 2000 {
		s := Random(rng.New(11).Sample(i).Draw(), Everything)
		c := Corrupt(s.Prompt, rng.New(12).Sample(i).Draw())
		other, err := Parse(c)
		if c == s.Prompt || err != nil {
			t.Fatalf("%q became %q: %v", s.Prompt, c, err)
		}
		if other.Family != s.Family {
			t.Fatalf("%q became another family: %q", s.Prompt, c)
		}
		kinds[s.Family]++
		if v := other.Score(s.Draw(nil)); v.Strict {
			t.Errorf("%q: the picture of %q is right for it", c, s.Prompt)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{"", "a", "a red circle", "a red circle on pink", "red circle on white", "one red circles on white", "two red circle on white",
		"a red circle left a blue square on white", "a red circle left of blue square on white", `the word CAT in red on white`, `the word "" in red on white`,
		`the word "CATS" in red on white`, `the word "cat" in red on white`, `the word " in red on white`, "a red circle beside a blue square on white"} {
		if got, err := Parse(s); err == nil {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a red circle left of a blue square on white")
	f.Add(`the word "CAT" in red on white`)
	f.Fuzz(func(t *testing.T, prompt string) {
		if s, err := Parse(prompt); err == nil {
			s.Score(s.Draw(nil))
		}
	})
}

func BenchmarkDraw(b *testing.B) {
	s, _ := Parse("four red circles on white")
	for i := range b.N {
		s.Draw(Jitter(rng.New(1).Sample(i).Draw()))
	}
}

func BenchmarkScore(b *testing.B) {
	s, _ := Parse(`the word "CAT" in red on white`)
	px := s.Draw(nil)
	for range b.N {
		s.Score(px)
	}
}
