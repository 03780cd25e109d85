package console

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Table is rows of text, printed in aligned columns. Columns of numbers are
// set to the right where the header begins with '>'.
type Table struct {
	Header []string // may be empty: no header line
	Rows   [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write prints the table, in the width that a terminal has.
func (t *Table) Write(w io.Writer) {
	var widths []int
	measure := func(cells []string) {
		for i, c := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	header := make([]string, len(t.Header))
	right := map[int]bool{}
	for i, h := range t.Header {
		header[i] = strings.TrimPrefix(h, ">")
		right[i] = h != header[i]
	}
	measure(header)
	for _, r := range t.Rows {
		measure(r)
	}
	fit(widths, right, columns(w))
	if len(header) > 0 {
		for _, line := range rowLines(header, widths, right) {
			fmt.Fprintln(w, Bold(w, line))
		}
	}
	for _, r := range t.Rows {
		for _, line := range rowLines(r, widths, right) {
			fmt.Fprintln(w, line)
		}
	}
}

// rowLines are a row's, more than one where a cell is wider than its column.
func rowLines(cells []string, widths []int, right map[int]bool) []string {
	var broken [][]string
	most := 0
	for i, c := range cells {
		broken = append(broken, Wrapped(c, widths[i]))
		most = max(most, len(broken[i]))
	}
	var all []string
	for n := range most {
		var b strings.Builder
		for i := range cells {
			c := ""
			if n < len(broken[i]) {
				c = broken[i][n]
			}
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(c)))
			if right[i] {
				c = pad + c
			} else {
				c += pad
			}
			b.WriteString(c + "  ")
		}
		all = append(all, strings.TrimRight(b.String(), " "))
	}
	return all
}

// narrowest is how narrow a column of text may become; a terminal that is narrower than that breaks lines itself.
const narrowest = 16

// columns is how many characters a line of w has: of a terminal, or as COLUMNS says; 0 where lines have no end, as in
// a pipe.
func columns(w io.Writer) int {
	if !terminal(w) {
		return 0
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	f, ok := behind(w).(*os.File)
	if !ok {
		return 0
	}
	return terminalWidth(f)
}

// fit makes the widest column of text narrower until a line has its place, again and again. Columns of numbers stay.
func fit(widths []int, number map[int]bool, most int) {
	if most <= 0 {
		return
	}
	for {
		over, widest := -most, -1
		for i, n := range widths {
			over += n
			if i > 0 {
				over += 2 // between columns
			}
			if !number[i] && n > narrowest && (widest < 0 || n > widths[widest]) {
				widest = i
			}
		}
		if over <= 0 || widest < 0 {
			return
		}
		second := narrowest
		for i, n := range widths {
			if i != widest && !number[i] {
				second = max(second, n)
			}
		}
		// Down to the next widest at once, and from there on together.
		widths[widest] -= min(over, max(1, widths[widest]-second))
	}
}
