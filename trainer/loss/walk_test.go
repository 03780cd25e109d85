package loss

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestTimesApart: the loss of noised samples, its numbers and its gradients have the same bits however many times it
// sees at once.
func TestTimesApart(t *testing.T) {
	const times, numbers = 5, 7
	groups, advantages := []int{0, 0, 0, 1, 1, 1}, []float64{1, -2, 0.5, 0.3, 2, -1}
	r := rand.New(rand.NewPCG(3, 1))
	rows := func() (all [][]float64) {
		for range times * len(groups) {
			row := make([]float64, numbers)
			for e := range row {
				row[e] = r.NormFloat64()
			}
			all = append(all, row)
		}
		return all
	}
	n := Noised{Clean: rows(), Noise: rows(), V: rows(), VOld: rows(), VRef: rows(), EMA: rows()}
	for range n.V {
		n.Time = append(n.Time, 0.05+0.9*r.Float64())
	}
	tried := 0
	for _, objective := range Objectives() {
		kind := objective.Form(false)
		for _, ratios := range []string{"exp_first", "sum_first"} {
			l := DefaultOptions()
			l.ClipRange, l.Ratios, l.KL.Weight, l.KL.EMAWeight, l.AdvMax, l.Times = 0.5, ratios, 0.1, 0.2, 1, times
			if kind.Noised == nil || ratios == "sum_first" && kind.Together == nil {
				continue
			}
			tried++
			by := func(most int) (grads [][]float64, v WalkResult) {
				walk := kind.Noised(l, 3)(times, groups, advantages)
				for from := 0; from < times; from += most {
					grad, err := walk.Next(n.Rows(from*len(groups), min(from+most, times)*len(groups)))
					if err != nil {
						t.Fatalf("%s: %v", objective.Name, err)
					}
					grads = append(grads, grad...)
				}
				return grads, walk.Result()
			}
			want, whole := by(times)
			if whole.Loss == 0 || slices.Equal(want[0], make([]float64, numbers)) {
				t.Errorf("%s: a loss of %v, gradient %v", objective.Name, whole.Loss, want[0])
			}
			for _, most := range []int{1, 2} {
				if kind.Together != nil && kind.Together(l) {
					if _, err := kind.Noised(l, 3)(times, groups, advantages).Next(n.Rows(0, len(groups))); err == nil {
						t.Errorf("%s by %s: a time by itself is taken", objective.Name, ratios)
					}
					continue
				}
				if got, v := by(most); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(v, whole) {
					t.Errorf("%s, %d times at once: other bits than of all", objective.Name, most)
				}
			}
		}
	}
	if tried < 8 {
		t.Errorf("%d losses were tried", tried)
	}
}
