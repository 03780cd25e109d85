package edits

// Card: Levenshtein's distance is the fewest insertions, deletions and replacements that turn
// one text into the other; the indel distance has no replacements. Two rows of the usual table,
// over any elements. (agnivade/levenshtein counts in 16 bits: longer texts overflow.)
// Invariants (tests): a metric; at least the difference of lengths, at most the longer; indel
// and Levenshtein by full tables and by rows agree.

// Distance is Levenshtein's, of texts.
func Distance(a, b string) int { return distance([]rune(a), []rune(b), 1) }

// Ratio is 1 - indel distance / (length of a + length of b), and 1 for two empty texts.
func Ratio(a, b string) float64 {
	x, y := []rune(a), []rune(b)
	if len(x)+len(y) == 0 {
		return 1
	}
	return 1 - float64(distance(x, y, 2))/float64(len(x)+len(y))
}

// distance takes a replacement for 1, or for 2: then it is as good as none.
func distance[E comparable](a, b []E, replacing int) int {
	if len(a) < len(b) {
		a, b = b, a
	}
	row := make([]int, len(b)+1) // distances of the part of a so far to every beginning of b
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		before := row[0]
		row[0] = i + 1
		for j, y := range b {
			cost := replacing
			if x == y {
				cost = 0
			}
			before, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, before+cost)
		}
	}
	return row[len(b)]
}
