package vlm

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// conversation makes kinds of tokens with pictures and clips between texts.
func conversation(r *rand.Rand, merge int) Sequence {
	var s Sequence
	text := func() {
		for range 1 + r.IntN(4) {
			s.Kinds = append(s.Kinds, TextToken)
		}
	}
	text()
	for _, g := range someGrids(r, merge) {
		kind := PictureToken
		if g.Frames > 1 {
			kind = ClipToken
			s.Clips = append(s.Clips, g)
		} else {
			s.Pictures = append(s.Pictures, g)
		}
		for range g.Tokens(merge) {
			s.Kinds = append(s.Kinds, kind)
		}
		text()
	}
	return s
}

// TestPositionsOfPrefix: indices do not depend on what comes after, padding before moves none,
// and a next token of text sits at its place + delta.
func TestPositionsOfPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for range 100 {
		rule := PositionRule{Merge: 2, Largest: r.IntN(2) == 0, Padding: r.IntN(2)}
		if r.IntN(2) == 0 {
			rule.PerSecond = 2
		}
		s := conversation(r, 2)
		at, delta, err := rule.Positions(s)
		if err != nil {
			t.Fatal(err)
		}
		longer := s
		longer.Kinds = append(slices.Clone(s.Kinds), TextToken)
		more, _, err := rule.Positions(longer)
		if err != nil {
			t.Fatal(err)
		}
		n := len(s.Kinds)
		for axis := range at {
			if !slices.Equal(more[axis][:n], at[axis]) {
				t.Fatalf("a token more moved indices: %v, %v", more[axis], at[axis])
			}
			// Under the largest-index rule, and where no clip ran further, delta says where it sits.
			if rule.Largest && more[axis][n] != n+delta {
				t.Fatalf("token %d sits at %d, delta %d", n, more[axis][n], delta)
			}
		}
		padded := s
		padded.Kinds = append(make([]int, 3), s.Kinds...)
		padded.Real = append(make([]bool, 3), slices.Repeat([]bool{true}, n)...)
		left, same, err := rule.Positions(padded)
		if err != nil || same != delta || !slices.Equal(left[0][3:], at[0]) || left[2][1] != rule.Padding {
			t.Fatalf("padding moved indices: %v, %v, %v", left[0], at[0], err)
		}
	}
}

func TestBadPositions(t *testing.T) {
	g := Grid{1, 4, 4}
	four := []int{0, 1, 1, 1, 1}
	for name, c := range map[string]struct {
		s    Sequence
		want string
	}{
		"no grid":           {Sequence{Kinds: four}, "no grid"},
		"a grid too many":   {Sequence{Kinds: four, Pictures: []Grid{g, g}}, "no tokens"},
		"cut short":         {Sequence{Kinds: four[:4], Pictures: []Grid{g}}, "has 3 in the sequence"},
		"another kind":      {Sequence{Kinds: []int{1, 1, 2, 1}, Pictures: []Grid{g}, Clips: []Grid{g}}, "has 2 in the sequence"},
		"an unknown kind":   {Sequence{Kinds: []int{7}}, "no grid"},
		"a mask":            {Sequence{Kinds: four, Pictures: []Grid{g}, Real: []bool{true}}, "mask"},
		"seconds":           {Sequence{Kinds: []int{2, 2, 2, 2}, Clips: []Grid{g}, Seconds: []float64{1, 2}}, "seconds of 2"},
		"endless seconds":   {Sequence{Kinds: []int{2, 2, 2, 2}, Clips: []Grid{g}, Seconds: []float64{math.Inf(1)}}, "seconds"},
		"no seconds":        {Sequence{Kinds: []int{2, 2, 2, 2}, Clips: []Grid{g}, Seconds: []float64{math.NaN()}}, "seconds"},
		"negative seconds":  {Sequence{Kinds: []int{2, 2, 2, 2}, Clips: []Grid{g}, Seconds: []float64{-1}}, "seconds"},
		"an enormous grid":  {Sequence{Kinds: four, Pictures: []Grid{{1 << 50, 2, 2}}}, "more than"},
		"an unmerged grid":  {Sequence{Kinds: four, Pictures: []Grid{{1, 3, 4}}}, "blocks"},
		"enormous per clip": {Sequence{Kinds: []int{2}, Clips: []Grid{{1 << 23, 2, 2}}}, "more than"},
	} {
		_, _, err := PositionRule{Merge: 2, PerSecond: 2}.Positions(c.s)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestExpand: marks and grids must agree, and kinds follow.
func TestExpand(t *testing.T) {
	m := Marks{8, 9}
	ids, kinds, err := m.Expand([]int32{1, 8, 2, 9, 8}, []Grid{{1, 2, 4}, {1, 2, 2}}, []Grid{{2, 2, 2}}, 2)
	if err != nil || !slices.Equal(ids, []int32{1, 8, 8, 2, 9, 9, 8}) || !slices.Equal(kinds, []int{0, 1, 1, 0, 2, 2, 1}) {
		t.Errorf("%v, %v, %v", ids, kinds, err)
	}
	for _, ids := range [][]int32{{1}, {8, 8}, {9}, {8, 9}} {
		if _, _, err := m.Expand(ids, []Grid{{1, 2, 2}}, nil, 2); err == nil || !strings.Contains(err.Error(), "marks") {
			t.Errorf("%v for one picture: %v", ids, err)
		}
	}
}
