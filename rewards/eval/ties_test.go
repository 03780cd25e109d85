package eval

import (
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestTies: values of mt-metrics-eval's tau_optimization (acc_23) and of PickScore's points: the best accuracy and its
// limit, the best points and theirs, and points at 0.3.
func TestTies(t *testing.T) {
	limit := 0.3
	for _, c := range []struct {
		labels, gaps                           []float64
		accuracy, limit, points, half, points3 float64
	}{
		{[]float64{0}, []float64{0.4}, 1.0, 0.4, 1.0, 0.4, 0.5},
		{[]float64{0}, []float64{0.3}, 1.0, 0.3, 1.0, 0.3, 1.0},
		{[]float64{0}, []float64{-0.9}, 1.0, 0.9, 1.0, 0.9, 0.5},
		{[]float64{0}, []float64{0.6}, 1.0, 0.6, 1.0, 0.6, 0.5},
		{[]float64{0, 0}, []float64{0.2, -0.3}, 1.0, 0.3, 1.0, 0.3, 1.0},
		{[]float64{0, 0}, []float64{0.2, 0.4}, 1.0, 0.4, 1.0, 0.4, 0.75},
		{[]float64{0, 0}, []float64{-0.3, 0.0}, 1.0, 0.3, 1.0, 0.3, 1.0},
		{[]float64{0, -1}, []float64{0.4, -0.5}, 1.0, 0.4, 1.0, 0.4, 0.75},
		{[]float64{0, 1, 1, 0, 1}, []float64{0.2, 1.4, 1.7, 0.2, -0.6}, 0.8, 0.2, 0.9, 0.6, 0.8},
		{[]float64{0, -1, 1, 0, 1}, []float64{-0.3, -1.5, 1.2, 0.2, 0.9}, 1.0, 0.3, 1.0, 0.3, 1.0},
		{[]float64{0, 0, 0, -1, 0}, []float64{0.0, 0.1, 1.0, -1.3, -0.2}, 1.0, 1.0, 1.0, 1.0, 0.9},
		{[]float64{0, 1, -1, 0, 0}, []float64{0.4, 0.8, -0.6, -0.4, -0.2}, 1.0, 0.4, 1.0, 0.4, 0.8},
		{[]float64{0, 0, 0, 0, -1, 1, 0, 1, 0, -1, -1, -1}, []float64{-0.1, -0.7, -0.6, -0.2, -0.6, -0.1, -0.4, -0.4, 0.5, -0.9, 0.8, -1.5}, 0.6666666666666666, 0.7, 0.8333333333333334, 0.8, 0.625},
		{[]float64{0, 0, 0, 0, 0, 0, 1, 0, 0, 0, -1, 0}, []float64{0.5, 0.0, -0.4, 0.3, -0.2, 0.5, -1.2, -0.1, 1.1, -0.6, 0.2, -0.2}, 0.8333333333333334, 1.1, 0.9166666666666666, 1.2, 0.6666666666666666},
		{[]float64{0, 0, 0, -1, 0, 1, 1, 1, 1, 0, -1, 0}, []float64{1.0, 0.1, 0.3, -1.8, 0.2, 0.3, 0.0, 0.7, 0.9, -0.2, -0.8, 0.1}, 0.75, 0.2, 0.875, 0.2, 0.875},
		{[]float64{0, 0, -1, -1, 1, 1, 0, 0, 1, 0, 1, 1}, []float64{1.0, 0.5, -0.2, 0.9, 0.2, -0.4, -0.8, 0.4, 0.7, -0.2, 0.0, 1.0}, 0.4166666666666667, 0.5, 0.7083333333333334, 0.9, 0.5416666666666666},
	} {
		var pairs []judgedPair
		for i, label := range c.labels {
			better := map[float64]Better{1: First, -1: Second, 0: Tie}[label]
			pairs = append(pairs, judgedPair{Pair: Pair{Better: better}, prompt: i, a: c.gaps[i]})
		}
		got := tiesOf(pairs, nil, rng.New(1))
		for _, v := range [][2]float64{{got.Accuracy.Value, c.accuracy}, {got.Limit, c.limit}, {got.Points.Value, c.points}, {got.Half, c.half}, {tiesOf(pairs, &limit, rng.New(1)).Points.Value, c.points3}} {
			if math.Abs(v[0]-v[1]) > 1e-12 {
				t.Errorf("%v, %v: %+v", c.labels, c.gaps, got)
			}
		}
	}
	if got := tiesOf([]judgedPair{{Pair: Pair{Better: First}}}, nil, rng.New(1)); got != nil {
		t.Errorf("no label is a tie: %+v", got)
	}
}

// TestCard: the card has accuracies of all and of each source, with ties where there are some, and no broken table.
func TestCard(t *testing.T) {
	set := numbered(12, 4, drawnLevel(3), func(_, pair int, a, b uint8) Better {
		if pair == 0 {
			return Tie
		}
		return larger(0, 0, a, b)
	})
	set.Layout = "genai_bench"
	for i := range set.Pairs {
		set.Pairs[i].Kind = []string{"one|two", "three"}[i%2]
	}
	r := run(t, times(1), set, Options{Probed: -1, Again: -1})
	if r.Order.Ties == nil || r.Order.Ties.Labelled != 12 || r.Order.Accuracy.Value != 1 || r.Order.Ties.Accuracy.Value >= 1 {
		t.Fatalf("%+v", r.Order)
	}
	card := CardOf([]*Report{r}, Setup{Command: "darkroom eval --set a=`b`", Seed: 7, Program: "p"})
	for _, want := range []string{"Layout: genai_bench.", "| **all** | 36 | 100.0 % (73.5 to 100.0) | 77.1 % ", "| one/two | ", "| three | 24 |", "| tied labels | 12 of 48 |", r.Sum, "`darkroom eval --set a='b'`"} {
		if !strings.Contains(card, want) {
			t.Errorf("%s is not in\n%s", want, card)
		}
	}
}
