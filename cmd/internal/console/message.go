package console

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Messages for people: on a terminal their lines are broken at spaces, and their marks (warning:, hint:) are bold.

// marks begin a line of a message.
var marks = []string{"darkroom:", "warning:", "note:", "hint:", "found:"}

// leastWidth is the terminal's below which lines are left to it.
const leastWidth = 40

// Message prints a message of one or more lines.
func Message(w io.Writer, text string) {
	if terminal(w) {
		text = laidOut(text, columns(w), func(mark string) string { return Bold(w, mark) })
	}
	fmt.Fprintln(w, text)
}

// leastWords is the width that words have after a deep indent.
const leastWords = 20

// laidOut is a message in lines of a width, the further ones indented, its marks by a function. Lines that begin with |
// are quoted, and keep their spaces.
func laidOut(text string, width int, mark func(string) string) string {
	var all []string
	for _, line := range strings.Split(text, "\n") {
		words := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(words)]
		parts := []string{line}
		if width >= leastWidth && len([]rune(line)) > width && !strings.HasPrefix(words, "|") {
			parts = Wrapped(words, max(leastWords, width-len(indent)-2))
			for i := range parts {
				parts[i] = indent + strings.Repeat(" ", 2*min(i, 1)) + parts[i]
			}
		}
		if first, _, _ := strings.Cut(words, " "); slices.Contains(marks, first) {
			parts[0] = indent + mark(first) + parts[0][len(indent)+len(first):]
		}
		all = append(all, parts...)
	}
	return strings.Join(all, "\n")
}
