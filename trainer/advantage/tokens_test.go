package advantage

import (
	"math"
	"testing"
)

func TestWhitenAndReturns(t *testing.T) {
	x, mask := [][]float64{{1, 5, 3}, {2, 8, 9}}, [][]float64{{1, 0, 1}, {1, 1, 0}}
	w := Masked(Whiten(x, mask, true, 0), mask)
	sum, squares := 0.0, 0.0
	for _, row := range w {
		for _, v := range row {
			sum, squares = sum+v, squares+v*v
		}
	}
	if math.Abs(sum) > 1e-12 || math.Abs(squares-3) > 1e-6 {
		t.Error(sum, squares)
	}
	r := Returns([][]float64{{0, 0, 1}}, [][]float64{{1, 0, 1}}, 0.5, true)
	if r[0][2] != 1 || r[0][1] != 0.5 || r[0][0] != 0 {
		t.Error("credit flows over an observation:", r)
	}
	// With lambda = gamma = 1 a token's advantage is the return minus its value.
	a, ret := GAE([][]float64{{0, 0, 2}}, [][]float64{{0.3, 9, 0.7}}, [][]float64{{1, 0, 1}}, 1, 1)
	if math.Abs(a[0][0]-1.7) > 1e-12 || math.Abs(ret[0][2]-2) > 1e-12 {
		t.Error(a, ret)
	}
}

func TestShapes(t *testing.T) {
	if Overlong(90, 100, 20, 1, true) != -0.5 || Overlong(80, 100, 20, 1, true) != 0 || Overlong(110, 100, 20, 0.5, true) != -0.5 || Overlong(110, 100, 20, 1, false) != -1.5 {
		t.Error("overlong")
	}
	if StopProperly(2, 0.5, true) != 1 || StopProperly(2, -1, true) != -1 || StopProperly(2, 0, false) != 2 || !math.IsNaN(StopProperly(math.NaN(), 0, true)) {
		t.Error("stop properly")
	}
	kept := KeepByMean([]int{0, 0, 1, 1}, []float64{1, 1, 0, 1}, 0.01, 0.99)
	if len(kept) != 2 || kept[0] != 2 {
		t.Error(kept)
	}
	none := func(int) bool { return false }
	if k := KeepByDeviation([]int{0, 0, 1, 1}, []float64{1, 1, 0, 1}, 1e-4, none, nil); len(k) != 2 || k[0] != 2 {
		t.Error(k)
	}
	if k := KeepUnequal([]int{0, 0, 1}, []float64{1, 1, 0}); len(k) != 1 || k[0] != 2 {
		t.Error(k)
	}
	m := ToolHealth([]int{0, 0, 1, 1}, []float64{1, 0, 1, 1}, []bool{true, false, true, true}, none, nil)
	if m["num_0_1"] != 1 || m["num_k_1"] != 1 || m["wrong_and_use_tool_num"] != 1 || m["only_use_tool_num"] != 1 || m["solve_all"] != 1 || m["success_tool_call_per_batch"] != 3 {
		t.Error(m)
	}
}
