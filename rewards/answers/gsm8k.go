package answers

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: answers of GSM8K (verl, gsm8k.py) among the last 300 characters. Strict: the last "#### number", without its
// commas. Flexible: the last run of digits, points and commas that is not just a point; where all are, the first.
// Compared as text. Invariants (tests): flexible finds each number that strict finds, commas apart.
type GSM8K struct {
	Flexible bool // any number counts
}

var (
	marked = regexp.MustCompile(`#### (-?[0-9.,]+)`)
	runOf  = regexp.MustCompile(`-?[0-9.,]+`)
)

// Answer is the number in a reply.
func (g GSM8K) Answer(reply string) (string, bool) {
	reply = pytext.Tail(reply, 300)
	if !g.Flexible {
		a, ok := lastIn(marked, reply)
		return strings.ReplaceAll(a, ",", ""), ok
	}
	all := runOf.FindAllString(reply, -1)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i] != "." || i == 0 {
			return all[i], true
		}
	}
	return "", false
}

// Rule judges a reply.
func (g GSM8K) Rule(reply, truth string) (rewards.Score, error) {
	said, ok := g.Answer(reply)
	return judged(one(ok && said == truth), "answer", said), nil
}
