package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

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

// wrapped is a cell in lines of so many characters, broken at spaces where it has some.
func wrapped(cell string, width int) []string {
	if utf8.RuneCountInString(cell) <= width {
		return []string{cell}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(cell) {
		for utf8.RuneCountInString(word) > width { // no space to break at
			if line != "" {
				lines, line = append(lines, line), ""
			}
			head := string([]rune(word)[:width])
			lines, word = append(lines, head), word[len(head):]
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}
