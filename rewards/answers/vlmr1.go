package answers

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: short answers as VLM-R1 (om-ai-lab/VLM-R1, grpo_jsonl.py) compares them.
//
//	Same      cleaned texts are equal
//	YesNo     the first "yes" or "no", even within a word ("know" says no), is the truth's; two
//	          texts with neither agree
//	Default   a digit in the truth: equal as numbers, or as texts by their ratio; a
//	          choice in the truth (choice.go): the same choice; else the texts' ratio
//
// Clean takes the last answer tag, joins its lines, drops points at its end and lower-cases. Upstream first asks a
// program of symbolic mathematics whether both sides are equal; here that step is missing, so that equalities that
// only mathematics could prove score lower. Invariants (tests): the truth itself is right; scores are between 0 and
// 1.

// Clean is a text as it is compared.
func Clean(text string) string {
	if a, ok := lastIn(answerTag, text); ok {
		text = a
	}
	text = joinLines(joinLines(text, '\n'), '\r')
	return pytext.Lower(strings.TrimRight(pytext.Strip(text), "."))
}

// joinLines drops line ends that follow white space, and makes others a space.
func joinLines(text string, end rune) string {
	var b strings.Builder
	before := 'x'
	for _, r := range text {
		switch {
		case r != end:
			b.WriteRune(r)
		case !pytext.Space(before):
			b.WriteByte(' ')
		}
		before = r
	}
	return b.String()
}

// Same is 1 for texts that are equal once cleaned.
func Same(reply, truth string) (rewards.Score, error) {
	r := Clean(reply)
	return judged(one(r == Clean(truth)), "answer", r), nil
}

// truthLine is the answer in a truth: the first tag, if it is on one line, or all of it.
func truthLine(truth string) string {
	t, ok := firstIn(answerLine, truth)
	return orWhole(t, ok, truth)
}

var yesNo = regexp.MustCompile(`yes|no`)

// YesNo compares the first yes or no.
func YesNo(reply, truth string) (rewards.Score, error) {
	reply, truth = pytext.Lower(reply), pytext.Lower(truth)
	a, ok := firstIn(answerTag, reply)
	said := yesNo.FindString(orWhole(a, ok, reply))
	return judged(one(said == yesNo.FindString(truthLine(truth))), "answer", said), nil
}

// saysYesNo is the error of a truth with neither: every reply with neither would be right.
func saysYesNo(truth string) error {
	if yesNo.FindString(truthLine(pytext.Lower(truth))) == "" {
		return fmt.Errorf("the truth %.80q says neither yes nor no", truth)
	}
	return nil
}

// Default compares in the way that the truth asks for.
func Default(reply, truth string) (rewards.Score, error) {
	truth = truthLine(truth)
	a, ok := lastIn(answerTag, reply)
	said := orWhole(a, ok, reply)
	if strings.ContainsFunc(truth, func(r rune) bool { return unicode.Is(unicode.Nd, r) }) {
		x, isNumber := pytext.Float(Clean(said))
		y, too := pytext.Float(Clean(truth))
		if isNumber && too {
			return judged(one(x == y), "number", said), nil
		}
	} else if right, ok := Choice(truth); ok {
		choice, ok := Choice(said)
		return judged(one(ok && choice == right), "choice", choice), nil
	}
	return judged(edits.Ratio(Clean(said), Clean(truth)), "answer", said), nil
}
