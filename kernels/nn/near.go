package nn

import (
	"cmp"
	"slices"
	"strings"
)

// nearHint names what was perhaps meant: the names whose ends differ least from what was
// asked for.
func nearHint(asked string, names []string) string {
	type scored struct {
		name string
		d    int
	}
	var all []scored
	for _, n := range names {
		end := n
		if asked != "" && len(end) > len(asked) { // the end of the name after a dot
			if at := strings.LastIndexByte(end[:len(end)-len(asked)+1], '.'); at >= 0 {
				end = end[at+1:]
			}
		}
		if d := distance(asked, end); d <= max(2, len(asked)/3) {
			all = append(all, scored{n, d})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(a.d, b.d) })
	var near []string
	for i, s := range all {
		if i == 3 {
			break
		}
		near = append(near, s.name)
	}
	if len(near) == 0 {
		if len(names) == 0 {
			return ""
		}
		return " (there are names like " + names[len(names)/2] + ")"
	}
	return " (near: " + strings.Join(near, ", ") + ")"
}

// distance is Levenshtein's: the fewest letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j]+1, row[j+1]+1, diagonal+1)
			if a[i] == b[j] {
				next = diagonal
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
