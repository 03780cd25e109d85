package advantage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBest(t *testing.T) {
	ids, r := []int{0, 0, 0, 1, 1, 2}, []float64{2, 5, 5, -3, missingReward, 7}
	if a := Best(ids, r); !same(a, []float64{0, 1, 1, 1, missingReward, 1}) {
		t.Error(a)
	}
}

func TestEnds(t *testing.T) {
	ids := []int{0, 0, 0, 1, 1, 1, 2}
	r := []float64{4, 9, 4, 6, 6, missingReward, 7}
	if a := Ends(ids, r, false); !same(a, []float64{-1, 1, 0, -1, 1, missingReward, 0}) {
		t.Error("as upstream:", a)
	}
	if a := Ends(ids, r, true); !same(a, []float64{-1, 1, 0, 0, 0, missingReward, 0}) {
		t.Error("equal ones skipped:", a)
	}
}

func TestPassAtK(t *testing.T) {
	ids, r := []int{0, 0, 0, 1, 1, 2}, []float64{1, 5, 2, 6, 6, 7}
	if a := PassAtK(Options{Scale: "none"}, ids, r); !same(a, []float64{0, 3, 0, 0, 0, 0}) {
		t.Error(a)
	}
	if a := PassAtK(Options{Scale: "group", DDOF: 1}, []int{0, 0}, []float64{1, 3}); !close(a[1], math.Sqrt2) || a[0] != 0 {
		t.Error(a)
	}
}

func TestProbability(t *testing.T) {
	a := []float64{-9, -2, -0.5, 0, 0.5, 2, 9}
	for _, mode := range []string{"all", "positive_only", "negative_only", "one_only", "binary"} {
		p := Probability(a, 5, mode)
		if p[3] != 0.5 || !slices.IsSorted(p) || p[0] < 0 || p[6] > 1 {
			t.Errorf("%s: %v", mode, p)
		}
		if p := Probability([]float64{missingReward}, 5, mode); !math.IsNaN(p[0]) {
			t.Errorf("%s: missing became %v", mode, p[0])
		}
	}
	if p := Probability(a, 5, "binary"); !close(p[5], 0.6) || !close(p[1], 0.4) {
		t.Error("binary is divided by clip:", p)
	}
}

// Equally unlike members are not weighed; the length of features says nothing; members that
// look the same are not divided by 0.
func TestDiversity(t *testing.T) {
	ids, r := []int{0, 0, 0}, []float64{1, 2, 6}
	for name, c := range map[string]struct {
		features [][]float64
		want     []float64
	}{
		"orthogonal": {[][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, []float64{-2, -1, 3}},
		"longer":     {[][]float64{{9, 0, 0}, {0, 2, 0}, {0, 0, 1}}, []float64{-2, -1, 3}},
		"the same":   {[][]float64{{1, 1, 0}, {1, 1, 0}, {1, 1, 0}}, []float64{-2, -1, 3}},
		"nothing":    {[][]float64{{0, 0}, {0, 0}, {0, 0}}, []float64{-2, -1, 3}},
		"far":        {[][]float64{{1, 0}, {1, 0}, {0, 1}}, []float64{-2, -1, 9}},  // unlike 0, 0, 1
		"near":       {[][]float64{{1, 0}, {-1, 0}, {1, 0}}, []float64{-2, -1, 0}}, // 0, 2, 0
	} {
		a, err := Diversity(ids, r, c.features)
		if err != nil || !same(a, c.want) {
			t.Errorf("%s: %v, want %v, %v", name, a, c.want, err)
		}
	}
}

func TestOPO(t *testing.T) {
	ids, lengths := []int{0, 0, 0, 0, 1}, []float64{10, 20, 30, 40, 7}
	r := []float64{1, 0.2, 0.2, 0.2, 3}
	a, err := OPO(ids, r, lengths)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float64{0.72, -0.08, -0.08, -0.08, 3}; !same(a, want) {
		t.Errorf("%v, want %v", a, want)
	}
	sum := 0.0
	for i := range 4 {
		sum += a[i] * lengths[i]
	}
	if math.Abs(sum) > 1e-12 {
		t.Errorf("by length they add up to %v", sum)
	}
	even, _ := OPO(ids, r, []float64{2, 2, 2, 2, 2})
	if !same(even[:4], of(t, Options{Baseline: "mean", Scale: "none"}, ids[:4], r[:4])) {
		t.Error("equal lengths:", even)
	}
}

func TestGPG(t *testing.T) {
	a, err := GPG([]int{0, 0, 0, 0}, []float64{0, 0, 4, missingReward}, 0.5)
	if err != nil || !same(a, []float64{-8, -8, 16, missingReward}) { // alpha is 3/1
		t.Error(a, err)
	}
	if a, err := GPG([]int{0, 0}, []float64{0, 0}, 1); err != nil || !same(a, []float64{0, 0}) {
		t.Error("no reward at all:", a, err)
	}
}

// With one iteration and a buffer that holds it, the history is the group; later, remembered rewards count, and
// rewards that fell out do not.
func TestHistory(t *testing.T) {
	o := Options{Over: "group", Baseline: "mean", Scale: "group", Eps: 1e-6, EpsMode: "add"}
	update := func(h *History, prompts []string, rewards ...float64) []float64 {
		a, err := h.Update(o, prompts, rewards)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	r := random(rand.New(rand.NewPCG(1, 1)), 5)
	first := update(&History{Size: 8, Min: 1}, []string{"a", "b", "a", "b", "a"}, r...)
	if want := of(t, o, []int{0, 1, 0, 1, 0}, r); !same(first, want) {
		t.Errorf("%v, want %v", first, want)
	}
	h := &History{Size: 3, Min: 2}
	if a := update(h, []string{"a", "b"}, 1, 3); !same(a, of(t, o, []int{0, 0}, []float64{1, 3})) {
		t.Error("too few are compared with the batch:", a)
	}
	if a := update(h, []string{"a", "a"}, missingReward, 3); !math.IsNaN(a[0]) || !close(a[1], 1/(1+1e-6)) {
		t.Error("1 is remembered, the missing one is not:", a)
	}
	update(h, []string{"a", "a"}, 5, 6)
	if want := []float64{3, 5, 6}; !slices.Equal(h.Rewards["a"], want) {
		t.Errorf("remembered %v, want %v", h.Rewards["a"], want)
	}
}

func TestWinRate(t *testing.T) {
	pairs := [][2]int{{0, 1}, {0, 2}, {1, 2}}
	if w := WinRate(4, pairs, []float64{1, 0.5, 0}, false); !same(w, []float64{0.75, 0, 0.75, missingReward}) {
		t.Error("never compared is missing:", w)
	}
	if w := WinRate(3, pairs, []float64{1, missingReward, 0}, false); !same(w, []float64{1, 0, 1}) {
		t.Error("an unread answer counts for neither:", w)
	}
	r := rand.New(rand.NewPCG(2, 2))
	var all [][2]int
	var outcome []float64
	for i := range 7 {
		for j := range i {
			all, outcome = append(all, [2]int{i, j}), append(outcome, float64(r.IntN(3))/2)
		}
	}
	sum := 0.0
	for _, w := range WinRate(7, all, outcome, false) {
		sum += w
	}
	if !close(sum, 3.5) {
		t.Errorf("win rates of 7 add up to %v", sum)
	}
	if w := WinRate(2, [][2]int{{0, 1}, {0, 1}, {0, 1}}, []float64{1, 0, 0}, true); w[0] != float64(float32(0.333)) {
		t.Error("three decimals:", w)
	}
}

func TestMeasure(t *testing.T) {
	ids := []int{0, 0, 0, 1, 1, 2, 2, 3}
	s := Measure(ids, []float64{0.1, 0.1, 0.1, 1, missingReward, 0, 2, missingReward})
	want := Stats{Samples: 8, Missing: 2, Groups: 3, Empty: 1, MeanSize: 2, Mean: 0.55, Spread: s.Spread, Dead: 2.0 / 3, Deviation: 1.0 / 3, AllOne: 1.0 / 3}
	if !close(s.Mean, want.Mean) || !close(s.Deviation, want.Deviation) {
		t.Errorf("%+v, want %+v", s, want)
	}
	s.Mean, s.Deviation = want.Mean, want.Deviation
	if s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}
