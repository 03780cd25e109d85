package vision

import (
	"image/color"
	"slices"
	"strings"
	"testing"
)

func TestSheetPlaces(t *testing.T) {
	var pictures []*Image
	for i := range 5 {
		pictures = append(pictures, NewFilled(6, 4, color.RGBA{uint8(40 * i), 1, 2, 255}))
	}
	sheet, err := Sheet{Columns: 3, Padding: 2, Scale: 2}.Draw(pictures)
	if err != nil {
		t.Fatal(err)
	}
	if sheet.Width != 2+3*(12+2) || sheet.Height != 2+2*(8+2) {
		t.Fatalf("the sheet is %d x %d", sheet.Width, sheet.Height)
	}
	back := sheet.At(0, 0)
	for y := range sheet.Height {
		for x := range sheet.Width {
			want := back
			if cx, cy := (x-2)/14, (y-2)/10; x >= 2 && y >= 2 && (x-2)%14 < 12 && (y-2)%10 < 8 && cy*3+cx < 5 {
				want = pictures[cy*3+cx].At(0, 0)
			}
			if got := sheet.At(x, y); got != want {
				t.Fatalf("(%d, %d) is %v, want %v", x, y, got, want)
			}
		}
	}
}

// TestSheetCells: the contents of a sheet's places are its pictures, whatever their sizes, captions and title.
func TestSheetCells(t *testing.T) {
	var pictures []*Image
	for i := range 7 {
		pictures = append(pictures, NewFilled(30+3*i, 40-2*i, color.RGBA{uint8(30 * i), 7, 2, 255}))
	}
	s := Sheet{Columns: 3, Scale: 2, Title: "title", Captions: strings.Split("one,two,three and more words,four,five,six,seven", ",")}
	sheet, err := s.Draw(pictures)
	if err != nil {
		t.Fatal(err)
	}
	places, err := s.Places(pictures)
	if err != nil || len(places) != len(pictures) {
		t.Fatalf("%d places, %v", len(places), err)
	}
	for i, p := range places {
		cell, err := sheet.Crop(p[0], p[1], p[2], p[3])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(cell.Pix, pictures[i].Enlarge(2).Pix) {
			t.Errorf("at %v is not picture %d", p, i)
		}
	}
	if _, err := s.Places(pictures[:2]); err == nil {
		t.Error("two pictures with seven captions have places")
	}
}

func TestSheetRefuses(t *testing.T) {
	one := []*Image{New(2, 2)}
	for name, try := range map[string]func() (*Image, error){
		"nothing":  func() (*Image, error) { return Sheet{}.Draw(nil) },
		"captions": func() (*Image, error) { return Sheet{Captions: []string{"a", "b"}}.Draw(one) },
		"empty":    func() (*Image, error) { return Sheet{}.Draw([]*Image{nil}) },
		"large":    func() (*Image, error) { return Sheet{Scale: 1 << 40}.Draw(one) },
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		lines int
		want  []string
	}{
		{"a red cup on the table", 9, []string{"a red cup", "on the", "table"}},
		{"a red cup on the table", 2, []string{"a red cup", "on the..."}},
		{"supercalifragilistic", 9, []string{"supercalif", "ragilistic"}},
		{"one\ntwo", 9, []string{"one", "two"}},
		{"a red cup and the next", 1, []string{"a red c..."}},
		{"", 9, []string{""}},
	} {
		if got := wrap(c.text, 10, c.lines); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d lines: %q, want %q", c.text, c.lines, got, c.want)
		}
	}
}

// TestText: letters differ, stay in their place, and enlarged text is text enlarged.
func TestText(t *testing.T) {
	ink := color.RGBA{255, 255, 255, 255}
	draw := func(s string, times int) *Image {
		w, h := TextSize([]string{s}, times)
		m := New(w, h)
		m.Text(0, 0, s, ink, times)
		return m
	}
	seen := map[string]rune{}
	for r := '!'; r <= '~'; r++ {
		pix := string(draw(string(r), 1).Pix)
		if other, ok := seen[pix]; ok {
			t.Errorf("%q looks like %q", r, other)
		}
		seen[pix] = r
		if !strings.Contains(pix, "\xff") {
			t.Errorf("%q is invisible", r)
		}
	}
	if !slices.Equal(draw("Ag", 3).Pix, draw("Ag", 1).Enlarge(3).Pix) {
		t.Error("enlarged text is not text enlarged")
	}
	m := New(10, 8)
	m.Text(-3, -5, "clipped, 漢\x07\xff", ink, 2) // must not panic
}

// TestShowSheet writes a sheet where -show names a folder, to be looked at.
func TestShowSheet(t *testing.T) {
	dir := *shown
	if dir == "" {
		t.Skip("-show names no folder to write pictures to")
	}
	var pictures []*Image
	var captions []string
	for i := range 7 {
		m := New(48+8*(i%2), 48)
		for y := range m.Height {
			for x := range m.Width {
				m.Set(x, y, color.RGBA{uint8(x * 5), uint8(y * 5), uint8(i * 36), 255})
			}
		}
		pictures = append(pictures, m)
		captions = append(captions, strings.Repeat("a red cup left of a blue box, ", 1+i%3)+"reward 0.71")
	}
	sheet, err := Sheet{Columns: 4, Scale: 3, Captions: captions, Title: "iteration 12: layout 0.61 -> 0.83", Lines: 3}.Draw(pictures)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(dir+"/sheet.png", sheet); err != nil {
		t.Fatal(err)
	}
}
