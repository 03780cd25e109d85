package prompts

import (
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

func defaultSkip() Skip {
	var s Skip
	s.SetDefaults()
	return s
}

// TestSkipFrequency: skipping has the formula's probability, which never reaches 1.
func TestSkipFrequency(t *testing.T) {
	s := defaultSkip()
	k := s.New(3)
	k.Solved[1], k.Failed[2] = 2, 40
	draw := rng.New(1).Draw()
	for p, want := range []float64{0, 0.75, 0.99} {
		n := 0
		for range 20000 {
			if k.Out(p, draw.Float64(), draw.Float64()) {
				n++
			}
		}
		if got := float64(n) / 20000; math.Abs(got-want) > 0.01 {
			t.Errorf("prompt %d is skipped in %.3f of all cases, want %.2f", p, got, want)
		}
	}
}

// TestSkipLearn: visits in a row are counted, and p moves from the second pass on, as GRESO's trainer moves it.
func TestSkipLearn(t *testing.T) {
	s := defaultSkip()
	k := s.New(4)
	all, none, some := []float64{1, 1}, []float64{0, 0}, []float64{1, 0}
	s.Learn(k, []int{0, 1, 2, 3}, [][]float64{all, none, some, {math.NaN()}})
	if k.Easy != 0.5 || k.Hard != 0.5 {
		t.Errorf("p moved in the first pass: %g, %g", k.Easy, k.Hard)
	}
	s.Learn(k, []int{0, 1, 2, 3}, [][]float64{all, some, none, all})
	if k.Easy != 0.49 || k.Hard != 0.49 { // a half solved, a quarter failed: at least 1/12 and 1/6
		t.Errorf("p is %g, %g, want 0.49 twice", k.Easy, k.Hard)
	}
	for p, want := range [][2]int{{2, 0}, {0, 0}, {0, 1}, {1, 0}} {
		if k.Solved[p] != want[0] || k.Failed[p] != want[1] {
			t.Errorf("prompt %d: solved %d, failed %d times in a row, want %v", p, k.Solved[p], k.Failed[p], want)
		}
	}
	s.Learn(k, []int{1}, [][]float64{some})
	if math.Abs(k.Easy-0.5) > 1e-15 || math.Abs(k.Hard-0.5) > 1e-15 {
		t.Errorf("p is %g, %g, want 0.5 twice", k.Easy, k.Hard)
	}
	for range 100 {
		s.Learn(k, []int{0}, [][]float64{all})
	}
	if k.Easy != s.Least || k.Hard != s.Most {
		t.Errorf("p is %g, %g, want its limits", k.Easy, k.Hard)
	}
}
