package vision

import (
	"flag"
	"image"
	"image/color"
	"math"
	"slices"
	"testing"
)

// TestDrawOutline: the outline's pixels and no others.
func TestDrawOutline(t *testing.T) {
	m := New(20, 16)
	m.Draw([]Mark{{X0: 12, Y0: 10, X1: 3, Y1: 4, Colour: white}})
	in, inner := image.Rect(3, 4, 12, 10), image.Rect(4, 5, 11, 9)
	for y := range 16 {
		for x := range 20 {
			p := image.Pt(x, y)
			if got, want := m.At(x, y) == white, p.In(in) && !p.In(inner); got != want {
				t.Errorf("(%d, %d): painted %t, want %t", x, y, got, want)
			}
		}
	}
}

// TestDrawAnything: no box is too odd; where it cannot be seen nothing is painted.
func TestDrawAnything(t *testing.T) {
	inf := math.Inf(1)
	blank := New(20, 16)
	for _, k := range []Mark{
		{X0: math.NaN(), Y0: 1, X1: 2, Y1: 3}, {X0: 30, Y0: 30, X1: 40, Y1: 40}, {X0: inf, Y0: inf, X1: inf, Y1: inf}, {X0: -9, Y0: -9, X1: -5, Y1: -5},
	} {
		m := New(20, 16)
		m.Draw([]Mark{k})
		if !slices.Equal(m.Pix, blank.Pix) {
			t.Errorf("%v was painted", k)
		}
	}
	for _, k := range []Mark{
		{X0: -inf, Y0: 5, X1: inf, Y1: 5, Label: "a label that is far too long for this"}, {X0: 4, Y0: 4, X1: 4, Y1: 4, Label: "x", Dashed: true}, {X0: 1e300, X1: -1e300, Y1: 3},
	} {
		m := New(20, 16)
		m.Draw([]Mark{k})
		if slices.Equal(m.Pix, blank.Pix) {
			t.Errorf("%v was not painted", k)
		}
	}
	New(1, 1).Draw([]Mark{{Label: "x", Dashed: true}})
}

func TestDrawMask(t *testing.T) {
	m := NewFilled(6, 6, color.RGBA{100, 100, 100, 255})
	on := make([]bool, 36)
	for _, p := range []image.Point{{2, 1}, {1, 2}, {2, 2}, {3, 2}, {2, 3}} {
		on[p.Y*6+p.X] = true
	}
	if err := m.DrawMask(on, color.RGBA{200, 0, 0, 255}); err != nil {
		t.Fatal(err)
	}
	for i, inside := range on {
		want := color.RGBA{100, 100, 100, 255}
		if inside {
			want = color.RGBA{200, 0, 0, 255}
		}
		if i == 2*6+2 { // the only one with neighbours on all sides
			want = color.RGBA{150, 50, 50, 255}
		}
		if got := m.At(i%6, i/6); got != want {
			t.Errorf("(%d, %d) is %v, want %v", i%6, i/6, got, want)
		}
	}
	if m.DrawMask(on[1:], white) == nil {
		t.Error("a mask of another size was drawn")
	}
}

func TestPaletteDiffers(t *testing.T) {
	seen := map[color.RGBA]int{}
	for i := range 8 {
		c := Palette(i)
		if j, ok := seen[c]; ok {
			t.Errorf("colours %d and %d are one", i, j)
		}
		seen[c] = i
	}
	if Palette(8) != Palette(0) || Palette(-1) == (color.RGBA{}) {
		t.Error("the palette does not go round")
	}
}

var shown = flag.String("show", "", "a folder for pictures to look at")

// TestShowMarks writes a picture where -show names a folder, to be looked at.
func TestShowMarks(t *testing.T) {
	dir := *shown
	if dir == "" {
		t.Skip("-show names no folder to write pictures to")
	}
	var all []*Image
	for _, size := range []int{160, 480} {
		s := float64(size)
		m := NewFilled(size, size*3/4, color.RGBA{70, 80, 90, 255})
		on := make([]bool, m.Width*m.Height)
		for i := range on {
			x, y := float64(i%m.Width)/s-0.7, float64(i/m.Width)/s-0.45
			on[i] = x*x+y*y < 0.02
		}
		if err := m.DrawMask(on, Palette(4)); err != nil {
			t.Fatal(err)
		}
		m.Draw([]Mark{
			{X0: 0.1 * s, Y0: 0.2 * s, X1: 0.4 * s, Y1: 0.5 * s, Label: "cup 0.93"},
			{X0: 0.08 * s, Y0: 0.18 * s, X1: 0.42 * s, Y1: 0.52 * s, Label: "wanted: cup", Dashed: true},
			{X0: 0.5 * s, Y0: 0, X1: 0.95 * s, Y1: 0.3 * s, Label: "box 0.41"},
			{X0: 0.55 * s, Y0: 0.3 * s, X1: 0.86 * s, Y1: 0.61 * s, Label: "ball"},
		})
		all = append(all, m)
	}
	sheet, err := Sheet{Captions: []string{"160 x 120", "480 x 360"}}.Draw(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(dir+"/marks.png", sheet); err != nil {
		t.Fatal(err)
	}
}
