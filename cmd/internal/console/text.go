package console

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bytes is a number of bytes for people: 17 B, 1.2 KiB, 3.4 GiB.
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	x, unit := float64(n)/(1<<10), 0
	for x >= 1023.95 && unit < 3 { // never 1024.0
		x, unit = x/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %ciB", x, "KMGT"[unit])
}

// Wrapped is a cell in lines of this width, broken at spaces where it has some.
func Wrapped(cell string, width int) []string {
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

// Printable makes a stranger's text safe to print on a terminal, and short.
func Printable(s string) string { return PrintableTo(s, 100) }

// PrintableTo is printable for texts of which more may be shown.
func PrintableTo(s string, most int) string {
	if r := []rune(s); len(r) > most {
		s = fmt.Sprintf("%s... (%s)", string(r[:most]), Plural(int64(len(s)), "byte"))
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !isPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Commas writes 1234567 as 1,234,567.
func Commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural is a number of things: 1 file, 2 files.
func Plural(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return Commas(n) + " " + what
}

func isPrint(r rune) bool { return unicode.IsPrint(r) }
