package answers

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: PyVision-RL (rule_match_verify.py) compares numbers by mean relative accuracy: the share
// of the thresholds t = .5, .55 ... .95 for which |said - true|/|true| < 1 - t; or exactly. The
// number is the first in the text. A truth that is a letter is compared with the first capital
// letter of the reply. Texts that are equal once stripped are right whatever they are.
// Invariants (tests): the truth is 1; falling with the error.
type Relative struct {
	Exact bool // only the same number is right
}

var firstNumber = regexp.MustCompile(`[-+]?` + `\p{Nd}*\.?` + number)

// numberIn is the first number in a text.
func numberIn(text string) (float64, bool) {
	m := firstNumber.FindString(text)
	if m == "" {
		return 0, false
	}
	return pytext.Float(m)
}

// Rule judges a reply.
func (r Relative) Rule(reply, truth string) (rewards.Score, error) {
	if pytext.Strip(reply) == pytext.Strip(truth) {
		return judged(1, "answer", reply), nil
	}
	want, isNumber := numberIn(truth)
	if !isNumber {
		letter := pytext.Strip(truth)
		if len(letter) != 1 || letter[0] < 'A' || letter[0] > 'Z' {
			return rewards.Score{}, fmt.Errorf("the truth %.80q is neither a number nor a capital letter", truth)
		}
		at := strings.IndexFunc(reply, func(c rune) bool { return c >= 'A' && c <= 'Z' })
		return judged(one(at >= 0 && reply[at:at+1] == truth), "letter", reply), nil
	}
	got, ok := numberIn(reply)
	switch {
	case !ok:
		return judged(0, "reply", reply), nil
	case r.Exact || want == 0:
		return judged(one(got == want), "number", fmt.Sprint(got)), nil
	}
	off := math.Abs(got-want) / math.Abs(want)
	hits := 0
	const thresholds = 10
	for i := range thresholds {
		hits += int(one(off < 1-(0.5+float64(0.05*float64(i)))))
	}
	return judged(float64(hits)/thresholds, "number", fmt.Sprint(got)), nil
}
