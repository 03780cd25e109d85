// Package edits counts how far one text is from another: in code points, never in bytes, with
// neither normalisation nor folding of case, which are the caller's to choose.
//
// Start with Distance. WER, CER and MER are the error rates of speech and text recognition.
package edits

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: Levenshtein's distance is the fewest insertions, deletions and replacements that turn
// one text into the other; the indel distance has no replacements. Two rows of the usual table,
// over any elements. (agnivade/levenshtein counts in 16 bits: longer texts overflow.)
// Invariants (tests): a metric; at least the difference of lengths, at most the longer; indel
// and Levenshtein by full tables and by rows agree.

// Distance is Levenshtein's, of texts.
func Distance(a, b string) int { return distance([]rune(a), []rune(b), 1) }

// Between is Levenshtein's, of any elements.
func Between[E comparable](a, b []E) int { return distance(a, b, 1) }

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

// Within reports whether Levenshtein's distance is at most a number. It counts within a band of the table.
func Within(a, b []rune, most int) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return false
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		low, high := max(0, i+1-most), min(len(b), i+1+most)
		before, left, best := row[max(0, low-1)], most+1, most+1
		if low == 0 {
			before, row[0], left, best = row[0], i+1, i+1, i+1
		}
		for j := max(1, low); j <= high; j++ {
			cost := 1
			if x == b[j-1] {
				cost = 0
			}
			above := row[j]
			if j == i+1+most {
				above = most + 1 // outside of the band of the row before
			}
			left = min(above+1, left+1, before+cost)
			before, row[j] = row[j], left
			best = min(best, left)
		}
		if best > most {
			return false
		}
	}
	return row[len(b)] <= most
}

// Card: error rates as jiwer 4 computes them. Edits over the length of the wanted text, in words (WER) or characters
// (CER), so that they may be above 1; MER divides by the length of the alignment and stays below. Words lie between
// single spaces, after runs of white space became one; nothing is lower-cased.
//
// With nothing wanted, WER and CER are the number of insertions and MER is 1, or all are 0 where
// nothing was read either. MER depends on which of several shortest alignments is taken: it is
// rapidfuzz's, from the end back, deletions first, then insertions.
// Invariants (tests): 0 for equal texts; MER <= WER.

// WER is the rate of wrong words.
func WER(want, got string) float64 {
	w, g := words(want), words(got)
	return rate(distance(w, g, 1), len(w))
}

// CER is the rate of wrong characters.
func CER(want, got string) float64 {
	w, g := []rune(pytext.Strip(want)), []rune(pytext.Strip(got))
	return rate(distance(w, g, 1), len(w))
}

// rate is edits over a length; of an empty text, the edits.
func rate(edits, length int) float64 { return float64(edits) / float64(max(length, 1)) }

// MER is the share of wrong matches among words. Texts whose table of distances would not fit
// in memory are judged as if nothing were inserted.
func MER(want, got string) float64 {
	w, g := words(want), words(got)
	if len(w) == 0 {
		return min(1, float64(len(g)))
	}
	edits := distance(w, g, 1)
	return float64(edits) / float64(len(w)+insertions(w, g))
}

var runs = regexp.MustCompile(pytext.SpaceClass + "{2,}")

func words(text string) []string {
	var all []string
	for _, w := range strings.Split(pytext.Strip(runs.ReplaceAllString(text, " ")), " ") {
		if w != "" {
			all = append(all, w)
		}
	}
	return all
}

// largest is the number of cells that a table of distances may have.
const largest = 1 << 24

// insertions counts those of one shortest alignment.
func insertions[E comparable](want, got []E) int {
	for len(want) > 0 && len(got) > 0 && want[0] == got[0] {
		want, got = want[1:], got[1:]
	}
	for len(want) > 0 && len(got) > 0 && want[len(want)-1] == got[len(got)-1] {
		want, got = want[:len(want)-1], got[:len(got)-1]
	}
	if (len(want)+1)*(len(got)+1) > largest {
		return max(0, len(got)-len(want))
	}
	d := table(want, got)
	n := 0
	i, j := len(want), len(got)
	for i > 0 && j > 0 {
		if d[i][j] == d[i-1][j]+1 { // a deletion
			i--
			continue
		}
		j--
		if j > 0 && d[i][j] == d[i-1][j]-1 {
			n++
			continue
		}
		i--
	}
	return n + j
}

// table is the distance of every beginning of a to every beginning of b.
func table[E comparable](a, b []E) [][]int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i, x := range a {
		for j, y := range b {
			cost := 1
			if x == y {
				cost = 0
			}
			d[i+1][j+1] = min(d[i][j+1]+1, d[i+1][j]+1, d[i][j]+cost)
		}
	}
	return d
}
