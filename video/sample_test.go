package video

import (
	"slices"
	"testing"
)

// TestUniform holds the rule to values that numpy and torch gave for
// round(linspace(0, total-1, n)).
func TestUniform(t *testing.T) {
	for _, k := range []struct {
		total, n int
		want     []int
	}{
		{10, 4, []int{0, 3, 6, 9}}, {81, 8, []int{0, 11, 23, 34, 46, 57, 69, 80}}, {6, 11, []int{0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5}},
		{7, 1, []int{0}}, {1, 3, []int{0, 0, 0}}, {0, 3, nil}, {3, 0, nil}, {3, -1, nil},
	} {
		if got := Uniform(k.total, k.n); !slices.Equal(got, k.want) {
			t.Errorf("%d of %d: %v, want %v", k.n, k.total, got, k.want)
		}
	}
	for total := 1; total < 60; total++ {
		for n := 2; n < 40; n++ {
			got := Uniform(total, n)
			if got[0] != 0 || got[n-1] != total-1 || !slices.IsSorted(got) {
				t.Fatalf("%d of %d: %v", n, total, got)
			}
		}
	}
}

func TestThinned(t *testing.T) {
	for _, k := range []struct {
		total int
		rate  Rate
		want  []int
	}{
		{9, Rate{24, 1}, []int{0, 3, 6}}, {5, Rate{8, 1}, []int{0, 1, 2, 3, 4}}, {5, Rate{}, []int{0, 1, 2, 3, 4}},
		{5, Rate{20, 1}, []int{0, 2, 4}}, {5, Rate{28, 1}, []int{0, 4}}, {3, Rate{1 << 30, 1}, []int{0}}, {0, Rate{24, 1}, nil},
	} {
		if got := Thinned(k.total, k.rate, 8); !slices.Equal(got, k.want) {
			t.Errorf("%d at %v: %v, want %v", k.total, k.rate, got, k.want)
		}
	}
}
