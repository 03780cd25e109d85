package motion

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGreatest: the greatest numbers, in the order of a sort, of any list, with ties and NaN.
func TestGreatest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 400 {
		x := make([]float64, n)
		for i := range x {
			if x[i] = float64(r.IntN(1 + n)); r.IntN(9) == 0 {
				x[i] = math.NaN()
			}
		}
		want, k := slices.Clone(x), r.IntN(1+n)
		slices.Sort(want)
		if got := greatest(x, k); slices.CompareFunc(got, want[n-k:], cmp.Compare) != 0 {
			t.Fatalf("%d of %v: %v", k, want, got)
		}
	}
}
