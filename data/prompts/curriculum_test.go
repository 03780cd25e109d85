package prompts

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestCurriculum: prompts are drawn as often as they fail, new ones as if they always did.
func TestCurriculum(t *testing.T) {
	c := Curriculum{Floor: 0.1}
	known := NewSuccesses(5)
	c.Learn(known, 0, []float64{1, 1, 1, 1})
	c.Learn(known, 1, []float64{1, 0, math.NaN(), 0.5}) // 0.5
	c.Learn(known, 2, []float64{math.NaN()})            // says nothing
	c.Learn(known, 3, []float64{7, 3})                  // cut to 1
	weights := []float64{0.1, 0.5, 1, 0.1}              // and 4 is not in the pool
	among := []int{0, 1, 2, 3}
	n := make([]float64, 4)
	const draws = 20000
	for i := range draws {
		got := c.Draw(rng.New(1).Iteration(i), known, 1, among)
		n[got[0]]++
	}
	for i, w := range weights {
		if want := w / 1.7 * draws; math.Abs(n[i]-want) > 5*math.Sqrt(want) {
			t.Errorf("prompt %d was drawn %v times, not about %.0f", i, n[i], want)
		}
	}
	for i := range 50 {
		got := c.Draw(rng.New(2).Iteration(i), known, 3, among)
		slices.Sort(got)
		if len(got) != 3 || len(slices.Compact(got)) != 3 || slices.Contains(got, 4) {
			t.Errorf("three prompts are %v", got)
		}
	}
	if got := c.Draw(rng.New(3), known, 9, among); len(got) != 4 {
		t.Errorf("of four prompts nine are %v", got)
	}
	open := Curriculum{By: "uncertainty", Floor: 0.05}
	for _, x := range [][2]float64{{math.NaN(), 0.55}, {0.5, 0.55}, {0, 0.05}, {1, 0.05}, {0.2, 0.45}} {
		if w := open.weight(x[0]); math.Abs(w-x[1]) > 1e-15 {
			t.Errorf("by uncertainty a prompt of success %v weighs %v, not %v", x[0], w, x[1])
		}
	}
	half := 0.5
	if r := Rate([]float64{0.5, 0.4, 0.9, math.NaN()}, &half); math.Abs(r-2.0/3) > 1e-15 {
		t.Errorf("two of three are %v", r)
	}
	c.Memory = 0.75
	c.Learn(known, 1, []float64{1})
	if known[1] != 0.625 {
		t.Errorf("a quarter of the way from 0.5 to 1 is %v", known[1])
	}
}

func TestPassRates(t *testing.T) {
	list := []Prompt{{Text: "a"}, {Text: "b"}, {Text: "c"}, {Text: "d"}, {Text: "e"}}
	f := PassRates{Samples: 4, Success: 0.9, AtMost: 0.75}
	nan := math.NaN()
	var rates []PassRate
	for i, totals := range [][]float64{{1, 0, 0, 0}, {1, 1, 1, 1}, {0, 0.89, 0, 0}, {1, 0.9, 1, 0}, {nan, nan, nan, nan}} {
		rates = append(rates, f.Measured(list[i], totals))
	}
	kept, err := f.Keeps(list, rates)
	if err != nil || !slices.Equal(kept, []int{0, 3}) || rates[4].Missing != 4 {
		t.Errorf("%v, %v, %+v", kept, err, rates)
	}
	if _, err := f.Keeps(list, rates[:4]); err == nil || !strings.Contains(err.Error(), `no pass rate of "e"`) {
		t.Errorf("a prompt that was not measured: %v", err)
	}
	if _, err := f.Keeps(list[:1], []PassRate{{Prompt: "a", Passed: 3, Of: 2}}); err == nil {
		t.Error("three of two passed")
	}
}

// TestFrom: a list that is read on in any portions is the same list.
func TestFrom(t *testing.T) {
	k := rng.New(5)
	whole := From(k, 0, 23, 7)
	var parts []int
	for n := 1; len(parts) < 23; n++ {
		parts = append(parts, From(k, len(parts), min(n, 23-len(parts)), 7)...)
	}
	if !slices.Equal(whole, parts) || !slices.Equal(whole[6:9], Pick(k, 2, 3, 7)) {
		t.Errorf("%v and %v", whole, parts)
	}
}

// TestMore: prompts that are solved half of the time get nothing, and a harder one never less.
func TestMore(t *testing.T) {
	for _, m := range []More{{By: "equal", Most: 64}, {By: "hard", Most: 64}} {
		for _, divided := range []bool{false, true} {
			before := 0
			for k := 8; k >= 0; k-- {
				n := m.Further(float64(k)/16, 16, divided)
				if k == 8 && n != 0 || n < before || n > 48 {
					t.Errorf("%+v, divided %v: %d further samples at %d of 16, and %d at one more", m, divided, n, k, before)
				}
				before = n
			}
			if n := m.Further(math.NaN(), 16, divided); n != 0 {
				t.Errorf("%+v: %d further samples of a prompt without a score", m, n)
			}
		}
	}
	if n := (More{By: "equal", Most: 12}).Further(0, 16, false); n != 0 {
		t.Errorf("a group that is larger than most got %d", n)
	}
}
