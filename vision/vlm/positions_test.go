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

// TestPositionsOfPrefix: indices do not depend on later tokens, padding before moves none, and a next token of text
// has the index of its place + delta.
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

func someGrids(r *rand.Rand, merge int) []Grid {
	grids := make([]Grid, 1+r.IntN(3))
	for i := range grids {
		grids[i] = Grid{1 + r.IntN(3), merge * (1 + r.IntN(7)), merge * (1 + r.IntN(7))}
	}
	return grids
}

// TestWindows holds windows to their definition: cells that share frame and window's row and
// column, in the order of the list, window by window; each cell once.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 200 {
		merge, side := 1+r.IntN(3), 1+r.IntN(5)
		grids := someGrids(r, merge)
		order, ends, err := Windows(grids, merge, side*merge*14, 14)
		if err != nil {
			t.Fatal(err)
		}
		type window struct{ grid, frame, row, column int }
		cells := map[window][]int{}
		var windows []window
		n := 0
		for i, g := range grids {
			for f := range g.Frames {
				for y := range g.Rows / merge {
					for x := range g.Columns / merge {
						w := window{i, f, y / side, x / side}
						if cells[w] == nil {
							windows = append(windows, w)
						}
						cells[w] = append(cells[w], n)
						n++
					}
				}
			}
		}
		slices.SortStableFunc(windows, func(a, b window) int {
			return slices.Compare([]int{a.grid, a.frame, a.row, a.column}, []int{b.grid, b.frame, b.row, b.column})
		})
		var want []int
		wantEnds := []int{0}
		for _, w := range windows {
			want = append(want, cells[w]...)
			wantEnds = append(wantEnds, len(want)*merge*merge)
		}
		if !slices.Equal(order, want) || !slices.Equal(ends, wantEnds) {
			t.Fatalf("%v in windows of %d: %v %v, want %v %v", grids, side, order, ends, want, wantEnds)
		}
	}
}

// TestPlaces: every patch of a frame once, and a merged cell is a stretch of the list.
func TestPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	for range 100 {
		merge := 1 + r.IntN(3)
		grids := someGrids(r, merge)
		places, err := Places(grids, merge)
		if err != nil {
			t.Fatal(err)
		}
		ends := FrameEnds(grids)
		if ends[len(ends)-1] != len(places) {
			t.Fatalf("%v: %d places, frames end at %v", grids, len(places), ends)
		}
		for i := 1; i < len(ends); i++ {
			seen := map[Place]bool{}
			for k, p := range places[ends[i-1]:ends[i]] {
				first := places[ends[i-1]+k/(merge*merge)*merge*merge]
				if seen[p] || p.Row/merge != first.Row/merge || p.Column/merge != first.Column/merge {
					t.Fatalf("%v: frame %d, patch %d is at %v", grids, i-1, k, p)
				}
				seen[p] = true
			}
		}
	}
}

// TestBadGrids: sizes that cannot be are errors, at once.
func TestBadGrids(t *testing.T) {
	for _, c := range []struct {
		grids []Grid
		merge int
		want  string
	}{
		{[]Grid{{0, 2, 2}}, 2, "holds nothing"},
		{[]Grid{{1, -2, 2}}, 2, "holds nothing"},
		{[]Grid{{1, 3, 2}}, 2, "not made of blocks"},
		{[]Grid{{1, 2, 2}}, 0, "merged"},
		{[]Grid{{1, 2, 2}}, 1 << 40, "merged"},
		{[]Grid{{1 << 40, 1 << 40, 1 << 40}}, 2, "more than"},
		{[]Grid{{1, 4096, 4096}, {1, 2, 2}}, 2, "more than"},
	} {
		for name, err := range map[string]error{
			"Places":  second(Places(c.grids, c.merge)),
			"Windows": third(Windows(c.grids, c.merge, 112, 14)),
			"Expand":  third(Marks{1, 2}.Expand([]int32{1}, c.grids, nil, c.merge)),
		} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %v by %d: %v, want %q", name, c.grids, c.merge, err, c.want)
			}
		}
	}
	for _, pixels := range []int{0, -5, 27} {
		if _, _, err := Windows([]Grid{{1, 2, 2}}, 2, pixels, 14); err == nil {
			t.Errorf("windows of %d pixels", pixels)
		}
	}
	if _, _, err := Windows([]Grid{{1, 2, 2}}, 2, 112, 0); err == nil {
		t.Error("patches of 0 pixels")
	}
}

func second[A any](_ A, err error) error      { return err }
func third[A, B any](_ A, _ B, e error) error { return e }
