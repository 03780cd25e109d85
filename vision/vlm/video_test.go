package vlm

import (
	"slices"
	"testing"
)

// The times are those that transformers 5.23 gives.
func TestTimestamps(t *testing.T) {
	for _, c := range []struct {
		frames []int
		rate   float64
		join   int
		want   []float64
	}{
		{[]int{0, 12, 24, 36}, 24, 2, []float64{0.25, 1.25}},
		{[]int{0, 15, 30}, 30, 2, []float64{0.25, 1}},
		{[]int{7}, 2, 2, []float64{3.5}},
		{[]int{0, 1, 2}, 1, 1, []float64{0, 1, 2}},
	} {
		got, err := Timestamps(c.frames, c.rate, c.join)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v at %v: %v, %v", c.frames, c.rate, got, err)
		}
	}
	for _, f := range []func() ([]float64, error){
		func() ([]float64, error) { return Timestamps(nil, 1, 2) },
		func() ([]float64, error) { return Timestamps([]int{1}, 0, 2) },
		func() ([]float64, error) { return Timestamps([]int{1}, 1, 0) },
	} {
		if _, err := f(); err == nil {
			t.Error("a clip that is none has times")
		}
	}
	text, err := FramesApart("a"+clip+"b", [][]float64{{0.25, 1.25}})
	if want := "a<0.2 seconds>" + clip + "<1.2 seconds>" + clip + "b"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := FramesApart(clip, nil); err == nil {
		t.Error("a clip without times was written")
	}
	if _, err := FramesApart("a", [][]float64{{1}}); err == nil {
		t.Error("times without a clip were written")
	}
	if g := FrameGrids(Grid{3, 4, 6}); len(g) != 3 || g[2] != (Grid{1, 4, 6}) {
		t.Errorf("%v", g)
	}
}
