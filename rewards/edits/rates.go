package edits

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: error rates as jiwer 4 computes them. Edits over the length of what was wanted, in words
// (WER) or characters (CER), so that they may be above 1; MER divides by the length of the
// alignment and stays below. Words lie between single spaces, after runs of white space became
// one; nothing is lower-cased.
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

// rate is edits over a length; where there is none, the edits.
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
