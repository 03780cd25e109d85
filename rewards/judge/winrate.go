package judge

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: win rates (Pref-GRPO). Every pair of a group is shown to the judge; the better one gets a
// point, both half of one where neither is called better; the rate is points over comparisons,
// rounded to three places.
//
//	Thinking  what <answer> holds names the better one (unifiedreward_think.py)
//	Editing   as well, whatever the case of letters; without tags the whole text counts, and so
//	          it does where the tags do not say (unifiedreward_edit_pairwise.py)
//
// A judge that said nothing gives both half a point upstream; an answer that never came fails
// the batch. Here a Comparison without an answer is left out.
// Invariants (tests): the rates of a whole tournament have the mean 1/2; exchanging both pictures
// and both names changes nothing.

// A Comparison is what the judge said of a pair.
type Comparison struct {
	First, Second int
	Reply         string
	Missing       bool // the judge could not be asked
}

// A Reading says who a reply calls better: 1, 2, or 0 for neither.
type Reading func(reply string) int

var (
	answerTag = regexp.MustCompile(`(?s)<answer>(.*?)</answer>`)
	anyAnswer = regexp.MustCompile(`(?is)<answer>(.*?)</answer>`)
)

// Thinking reads replies that name the better one in their answer tag.
func Thinking(better1, better2 string) Reading {
	return func(reply string) int {
		said := ""
		if m := answerTag.FindStringSubmatch(reply); m != nil {
			said = pytext.Strip(m[1])
		}
		return named(said, better1, better2)
	}
}

// Editing reads replies that name the better one anywhere.
func Editing(better1, better2 string) Reading {
	better1, better2 = pytext.Lower(better1), pytext.Lower(better2)
	return func(reply string) int {
		said := pytext.Strip(reply)
		if m := anyAnswer.FindStringSubmatch(reply); m != nil {
			said = pytext.Strip(m[1])
		}
		if said == "" {
			return 0
		}
		if w := named(pytext.Lower(said), better1, better2); w > 0 {
			return w
		}
		return named(pytext.Lower(reply), better1, better2)
	}
}

func named(said, better1, better2 string) int {
	switch {
	case said == "":
	case strings.Contains(said, better1):
		return 1
	case strings.Contains(said, better2):
		return 2
	}
	return 0
}

// A tally counts points and comparisons of each item.
type tally struct{ points, compared []float64 }

func newTally(n int) *tally { return &tally{make([]float64, n), make([]float64, n)} }

func (t *tally) count(c Comparison, winner int) {
	t.compared[c.First]++
	t.compared[c.Second]++
	switch winner {
	case 1:
		t.points[c.First]++
	case 2:
		t.points[c.Second]++
	default:
		t.points[c.First] += 0.5
		t.points[c.Second] += 0.5
	}
}

// rate is an item's share of points, 0 where it was never compared.
func (t *tally) rate(i int) float64 { return t.points[i] / max(1, t.compared[i]) }

// WinRates are the rates of n items.
func WinRates(n int, comparisons []Comparison, read Reading) ([]float64, error) {
	t := newTally(n)
	for _, c := range comparisons {
		if err := c.check(n); err != nil {
			return nil, err
		}
		if !c.Missing {
			t.count(c, read(c.Reply))
		}
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = rounded(t.rate(i))
	}
	return out, nil
}

func (c Comparison) check(n int) error {
	if min(c.First, c.Second) < 0 || max(c.First, c.Second) >= n || c.First == c.Second {
		return fmt.Errorf("items %d and %d of %d cannot be compared", c.First, c.Second, n)
	}
	return nil
}

// rounded is round(x, 3) of Python: the decimal nearest to the number, halves to even.
func rounded(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'f', 3, 64), 64) // just written
	return x
}
