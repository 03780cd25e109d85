package vlm

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

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
