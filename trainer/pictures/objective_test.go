package pictures

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestPermuted: DiffusionNFT's nine of ten times of a sample are nine different ones, any may be the tenth, and samples
// have orders of their own.
func TestPermuted(t *testing.T) {
	left := map[int]bool{}
	for sample := range 100 {
		order := rng.New(3).With("order of times").Sample(sample)
		var drawn []int
		for n := range 20 {
			drawn = append(drawn, permuted(order, n, 10))
		}
		for _, round := range [][]int{drawn[:10], drawn[10:]} {
			if all := slices.Sorted(slices.Values(round)); !slices.Equal(all, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
				t.Fatalf("sample %d: %v", sample, round)
			}
		}
		if slices.Equal(drawn[:10], drawn[10:]) {
			t.Errorf("sample %d begins the same order again", sample)
		}
		left[drawn[9]] = true
	}
	if len(left) != 10 {
		t.Errorf("with nine times of ten only %d of them are ever left out", len(left))
	}
}
