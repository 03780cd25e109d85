package console

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFit: a table is as narrow as it should be, its numbers whole, and no word of it is lost.
func TestFit(t *testing.T) {
	cells := []string{"solvers", "flow-sde", strings.Repeat("what a solver does, in words ", 6) + "averyveryverylongwordthathasnospace", "12.5"}
	number := map[int]bool{3: true}
	for _, most := range []int{0, 200, 80, 60, 50} {
		var widths []int
		for _, c := range cells {
			widths = append(widths, utf8.RuneCountInString(c))
		}
		fit(widths, number, most)
		all := rowLines(cells, widths, number)
		for _, line := range all {
			if most > 0 && utf8.RuneCountInString(line) > most {
				t.Errorf("at %d: %q has %d characters", most, line, utf8.RuneCountInString(line))
			}
		}
		if widths[3] != 4 || most == 0 && len(all) != 1 || most == 50 && len(all) < 5 {
			t.Errorf("at %d: widths %v, %d lines", most, widths, len(all))
		}
		if got := strings.Join(Wrapped(cells[2], widths[2]), ""); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(cells[2], " ", "") {
			t.Errorf("at %d: %q", most, got)
		}
	}
	widths := []int{60, 50, 5}
	if fit(widths, nil, 80); widths[2] != 5 || widths[0]+widths[1]+widths[2]+4 > 80 || max(widths[0], widths[1])-min(widths[0], widths[1]) > 1 {
		t.Errorf("two wide columns become %v", widths)
	}
	if got := Wrapped("", 5); !slices.Equal(got, []string{""}) {
		t.Errorf("an empty cell is %q", got)
	}
}

func TestTable(t *testing.T) {
	tab := Table{Header: []string{"NAME", ">GB/s"}}
	tab.Add("é", "12.5")
	tab.Add("longer name", "3")
	var b strings.Builder
	tab.Write(&b)
	want := "NAME         GB/s\né            12.5\nlonger name     3\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
