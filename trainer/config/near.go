package config

import (
	"slices"
	"strings"
)

// Near is the name most like a wrong one, "" if none is like enough: about a third
// of the letters may differ, or one may begin with all of the other.
func Near(wrong string, names []string) string {
	if best := nearest(wrong, names, max(1, len(wrong)/3)); best != "" {
		return best
	}
	for _, n := range names {
		if len(n) > 2 && strings.HasPrefix(wrong, n) || len(wrong) > 2 && strings.HasPrefix(n, wrong) {
			return n
		}
	}
	return ""
}

// nearest is the name with the fewest edits, if there are no more than most.
func nearest(wrong string, names []string, most int) (best string) {
	for _, n := range names {
		if d := edits(wrong, n); d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// edits is the number of letters to insert, delete, replace, or swap with their
// neighbour, to make b of a (optimal string alignment).
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 { // nobody misspells that
		return 64
	}
	var rows [2][]int // the last two
	rows[1] = make([]int, len(b)+1)
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := rows[1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = slices.Min([]int{change, rows[1][j] + 1, row[j-1] + 1})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], rows[0][j-2]+1)
			}
		}
		rows[0], rows[1] = rows[1], row
	}
	return rows[1][len(b)]
}
