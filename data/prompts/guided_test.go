package prompts

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestGuided: rounds of three by hand, bounds, and a round that goes on behind a checkpoint. The authors' code with
// more scores is a recorded case (cmd/parity, methods.guidance).
func TestGuided(t *testing.T) {
	var g Guided
	g.SetDefaults()
	g.Tokens, g.Most = 100, 250
	k := g.New()
	nan := math.NaN()
	var lengths []int
	for i, score := range []float64{
		0.4, 0.6, 0.25, // 100 · 0.5/0.25
		0.5, nan, 0.5, 0.25, // 200 · 2, and 250 at most
		0.1, 0.3, 0.2, // as before
		0, 0, 1, // nothing to compare with
		0.5, 0.5, 0, // nor this
		0.001, 0.001, 1, // 250 · 0.001, and 1 at least
	} {
		g.Learn(k, score)
		lengths = append(lengths, k.Tokens)
		if i == 8 {
			text, err := json.Marshal(k)
			if err != nil {
				t.Fatal(err)
			}
			k = &Guidance{}
			if err := json.Unmarshal(text, k); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []int{100, 100, 200, 200, 200, 200, 250, 250, 250, 250, 250, 250, 250, 250, 250, 250, 250, 250, 1}
	if !slices.Equal(lengths, want) {
		t.Errorf("lengths %v, want %v", lengths, want)
	}
	g.Every = 0
	for _, score := range []float64{0.5, 0.5, 0.1} {
		if g.Learn(k, score); k.Tokens != 1 || k.Scores != nil {
			t.Errorf("%+v, where the number stays", *k)
		}
	}
}

// TestSolution: a text, nothing, and another kind of value.
func TestSolution(t *testing.T) {
	g := Guided{Key: "solution"}
	for meta, want := range map[Meta]string{`{"solution":"First, "}`: "First, ", `{"answer":"7"}`: "", "": ""} {
		if got, err := g.Solution(meta); got != want || err != nil {
			t.Errorf("%s: %q, %v", meta, got, err)
		}
	}
	if _, err := g.Solution(`{"solution":7}`); err == nil {
		t.Error("a number is taken for a text")
	}
	plain, err := Open("embed:zoom")
	if err != nil {
		t.Fatal(err)
	}
	list, err := Open("embed:zoom-solved")
	if err != nil || len(list) != len(plain) {
		t.Fatalf("%d questions of %d are solved, %v", len(list), len(plain), err)
	}
	for i, p := range list {
		text, err := g.Solution(p.Meta)
		if err != nil || !strings.HasPrefix(text, `<tool_call>{"name": "zoom"`) || p.Text != plain[i].Text {
			t.Fatalf("question %d: %q, solved by %q, %v", i, p.Text, text, err)
		}
	}
}
