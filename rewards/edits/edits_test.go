package edits

import (
	"math"
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	texts := []string{"", "a", "kitten", "sitting", "日本語", "日本", "naïve", "naive", strings.Repeat("ab", 40), "flaw", "lawn"}
	for _, a := range texts {
		for _, b := range texts {
			d := Distance(a, b)
			if full := table([]rune(a), []rune(b)); d != full[len(full)-1][len([]rune(b))] {
				t.Errorf("%q, %q: %d by rows, by the table %d", a, b, d, full[len(full)-1][len([]rune(b))])
			}
			for most := range 6 {
				if Within([]rune(a), []rune(b), most) != (d <= most) {
					t.Errorf("%q, %q: %d apart, within %d: %v", a, b, d, most, d > most)
				}
			}
			if d != Distance(b, a) || (d == 0) != (a == b) {
				t.Errorf("%q, %q: %d is no distance", a, b, d)
			}
			for _, c := range texts {
				if Distance(a, c) > d+Distance(b, c) {
					t.Errorf("%q is nearer to %q by way of %q", a, c, b)
				}
			}
		}
	}
	for _, c := range []struct {
		a, b string
		d    int
		r    float64
	}{{"kitten", "sitting", 3, 1 - 5.0/13}, {"日本語", "月本語", 1, 1 - 2.0/6}, {"", "", 0, 1}, {"", "abc", 3, 0}} {
		if d, r := Distance(c.a, c.b), Ratio(c.a, c.b); d != c.d || !near(r, c.r) {
			t.Errorf("%q, %q: %d and %v, want %d and %v", c.a, c.b, d, r, c.d, c.r)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-15 }

func TestRates(t *testing.T) {
	for _, c := range []struct {
		want, got     string
		wer, cer, mer float64
	}{
		{"the cat", "the cat", 0, 0, 0},
		{" the  cat ", "the cat", 0, 1.0 / 8, 0},
		{"stop", "stop now and wait", 3, 13.0 / 4, 0.75},
		{"a b", "b c", 1, 2.0 / 3, 1},
		{"a b c d", "b c d e", 0.5, 4.0 / 7, 0.4},
		{"", "two words", 2, 9, 1},
		{"", "", 0, 0, 0},
		{"gone", "", 1, 1, 1},
	} {
		wer, cer, mer := WER(c.want, c.got), CER(c.want, c.got), MER(c.want, c.got)
		if !near(wer, c.wer) || !near(cer, c.cer) || !near(mer, c.mer) {
			t.Errorf("%q, %q: %v %v %v, want %v %v %v", c.want, c.got, wer, cer, mer, c.wer, c.cer, c.mer)
		}
		if mer > wer {
			t.Errorf("%q, %q: MER %v is above WER %v", c.want, c.got, mer, wer)
		}
	}
}

// A text whose table would not fit still has rates.
func TestLongTexts(t *testing.T) {
	a, b := strings.Repeat("a ", 5000), strings.Repeat("b ", 5001)
	if m := MER(a, b); m != 1 {
		t.Errorf("MER is %v", m)
	}
}
