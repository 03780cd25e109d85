package advantage

import (
	"math"
	"slices"
	"testing"
)

func TestBestOfN(t *testing.T) {
	scores := []float64{3, missingReward, 9, 1, 7, 5}
	for n, want := range map[int][]int{0: {}, 1: {2}, 2: {2, 3}, 3: {4, 2, 3}, 9: {5, 4, 2, 3, 0}} {
		if got := BestOfN(scores, n); !slices.Equal(got, want) {
			t.Errorf("best of %d: %v, want %v", n, got, want)
		}
	}
}

func TestPairs(t *testing.T) {
	ids, scores := []int{5, 5, 5, 6, 6, 7, 7, 8}, []float64{1, 3, 1, 2, 2, missingReward, 4, 9}
	if got, want := Pairs(ids, scores, 0), [][2]int{{1, 2}, {3, 4}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := Pairs(ids, scores, 0.5), [][2]int{{1, 2}}; !slices.Equal(got, want) {
		t.Errorf("with a margin %v, want %v", got, want)
	}
}

func TestFilter(t *testing.T) {
	nan := missingReward
	ids := []int{0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4}
	rewards := []float64{1, 1, 1, 0, nan, 1, 0.1, 0.1, nan, nan, 1}
	for _, c := range []struct {
		name  string
		f     Filter
		aside []bool
		want  []int
	}{
		{"mean", DefaultFilter(), nil, []int{3, 4, 5, 6, 7}},
		{"deviation", Filter{By: "deviation", Least: 1e-4}, nil, nil},
		{"unequal", Filter{By: "unequal"}, nil, []int{3, 4, 5, 10}},
		{"open", Filter{By: "open", Least: 0.05, High: 0.9}, nil, []int{3, 4, 5}},
		{"open, of better groups", Filter{By: "open", Least: 0.05, High: 0.4}, nil, nil},
		{"rounded", Filter{By: "rounded"}, nil, []int{3, 4, 5, 10}},
	} {
		if got := c.f.Kept(ids, rewards, c.aside); !slices.Equal(got, c.want) {
			t.Errorf("%s keeps %v, want %v", c.name, got, c.want)
		}
	}
	f := Filter{By: "deviation", Least: 1e-4}
	ids, rewards = []int{0, 0, 0, 1, 1, 1}, []float64{1, 1, 0, 0, 0, 0}
	if got := f.Kept(ids, rewards, nil); !slices.Equal(got, []int{0, 1, 2}) {
		t.Error(got)
	}
	if got := f.Kept(ids, rewards, []bool{false, false, true, false, false, false}); len(got) != 0 {
		t.Error("what made the difference is aside:", got)
	}
	said := ""
	Filter{By: "mean", Low: 1, High: 0}.Check(func(key, problem, hint string) { said = key })
	if said == "" {
		t.Error("bounds that keep nothing pass")
	}
}

func TestOverlong(t *testing.T) {
	o := Overlong{Limit: 100, Buffer: 20, Factor: 0.5, Floor: true}
	for length, want := range map[int]float64{0: 0, 80: 0, 81: -0.025, 90: -0.25, 100: -0.5, 110: -0.5} {
		if got := o.Penalty(length); !close(got, want) {
			t.Errorf("%d tokens: %v, want %v", length, got, want)
		}
	}
	o.Floor = false
	if got := o.Penalty(110); !close(got, -0.75) {
		t.Errorf("without a floor: %v", got)
	}
	for _, floor := range []bool{true, false} {
		o.Floor = floor
		for n := 1; n < 130; n++ {
			if fall := o.Penalty(n-1) - o.Penalty(n); fall < 0 || fall > 0.0251 {
				t.Errorf("between %d and %d tokens it falls by %v", n-1, n, fall)
			}
		}
	}
	said := ""
	Overlong{Limit: 10, Buffer: 11}.Check(func(key, problem, hint string) { said = key })
	if said != "buffer" {
		t.Error("a buffer longer than the answer passes")
	}
}

func TestStopProperly(t *testing.T) {
	for _, c := range []struct {
		reward, coefficient float64
		truncated           bool
		want                float64
	}{{2, 0.5, true, 1}, {2, -1, true, -1}, {2, 0, false, 2}, {-2, 0.5, true, -1}, {missingReward, -1, true, missingReward}} {
		if got := StopProperly(c.reward, c.coefficient, c.truncated); !close(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Groups of equal rewards whose deviation is not 0 in numpy, by their size.
func TestRoundedFilter(t *testing.T) {
	for _, c := range []struct {
		reward float64
		sizes  []int
	}{
		{0.1, []int{3, 6, 7, 12, 13, 14, 15, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 35, 36, 37, 38, 39, 128, 129, 144, 264, 300}},
		{1.1, []int{6, 7, 11, 12, 13, 14, 18, 19, 20, 21, 22, 23, 27, 28, 29, 30, 31, 35, 36, 37, 38, 39, 128, 129, 144, 200, 264, 300}},
	} {
		var kept []int
		sizes := []int{128, 129, 144, 200, 264, 300}
		for n := 40; n >= 2; n-- {
			sizes = slices.Insert(sizes, 0, n)
		}
		for _, n := range sizes {
			if len(Filter{By: "rounded"}.Kept(make([]int, n), slices.Repeat([]float64{c.reward}, n), nil)) > 0 {
				kept = append(kept, n)
			}
		}
		if !slices.Equal(kept, c.sizes) {
			t.Errorf("%v: groups of %v are kept, of %v in numpy", c.reward, kept, c.sizes)
		}
	}
}

// TestLargest keeps the scores farthest from 0, in the order of samples; of equals the first.
func TestLargest(t *testing.T) {
	scores := []float64{0.1, -2, math.NaN(), 0.5, -0.5, 1}
	for n, want := range map[int][]int{0: {}, 1: {1}, 2: {1, 5}, 3: {1, 3, 5}, 9: {0, 1, 3, 4, 5}} {
		if got := Largest(scores, n); !slices.Equal(got, want) {
			t.Errorf("the %d largest are %v, want %v", n, got, want)
		}
	}
}

// TestKeep: mean and deviation are of the samples that are kept, the others have no advantage.
func TestKeep(t *testing.T) {
	b := Batch{Groups: []int{0, 0, 0, 0}, Rewards: [][]float64{{1, 0, 1, math.NaN()}}, Lengths: []float64{10, 2, 4, 1}}
	e := Estimator{Options: Options{Baseline: "mean", Scale: "none"}}
	for _, c := range []struct {
		keep Keep
		want []float64
	}{
		{Keep{9, "length"}, []float64{1. / 3, -2. / 3, 1. / 3, math.NaN()}},
		{Keep{2, "length"}, []float64{math.NaN(), -0.5, 0.5, math.NaN()}},
		{Keep{2, "efficiency"}, []float64{0, math.NaN(), 0, math.NaN()}},
	} {
		e.Keep = &c.keep
		got, _, err := e.Advantages(b)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range c.want {
			if math.IsNaN(w) != math.IsNaN(got[i]) || math.Abs(got[i]-w) > 1e-15 {
				t.Errorf("%+v: sample %d has %g, want %g", c.keep, i, got[i], w)
			}
		}
	}
	if b.Rewards[0][0] != 1 {
		t.Error("the batch was changed")
	}
	b.Lengths = nil
	if _, _, err := e.Advantages(b); err == nil {
		t.Error("answers without lengths are taken")
	}
}
