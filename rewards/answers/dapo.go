package answers

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: DAPO's answers (EasyR1, examples/reward_function/dapo.py, after Minerva): the text after the last "Answer:"
// on its line, normalised by rules of text on both sides; +1 if they are equal, else -1, as without such a line. The
// rules are applied in order and know no words, so that "an " loses its letters anywhere: both sides suffer alike.
// Invariants (tests): the truth is 1; normalising twice changes nothing in the cases.

var answerMark = regexp.MustCompile(`(?i:Answer)` + pytext.SpaceClass + `*:` + pytext.SpaceClass + `*([^\n]+)`)

// noAnswer replaces the answer of a reply without one.
const noAnswer = "[INVALID]"

// DAPOAnswer is the answer in a reply.
func DAPOAnswer(reply string) string {
	if a, ok := lastIn(answerMark, reply); ok {
		return a
	}
	return noAnswer
}

// DAPO judges a reply.
func DAPO(reply, truth string) (rewards.Score, error) {
	said := NormaliseDAPO(DAPOAnswer(reply))
	return judged(2*one(said == NormaliseDAPO(truth))-1, "answer", said), nil
}

// substitutions come first, one after the other; then removed.
var substitutions = [][2]string{
	{"an ", ""}, {"a ", ""}, {".$", "$"}, {`\$`, ""}, {`\ `, ""}, {" ", ""}, {"mbox", "text"},
	{`,\text{and}`, ","}, {`\text{and}`, ","}, {`\text{m}`, `\text{}`},
}

var removed = []string{
	"square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units", `\ldots`, "sue", "points", "feet", "minutes", "digits",
	"cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students", "childrentickets", "multiples",
	`\text{s}`, `\text{.}`, "\\text{\ns}", `\text{}^2`, `\text{}^3`, "\\text{\n}", `\text{}`, `\mathrm{th}`, `^\circ`, `^{\circ}`, `\;`, `,\!`, "{,}", `"`, `\dots`,
}

// rewritten are patterns of LaTeX and their replacements, in order.
var rewritten = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`.*?\$(.*?)\$.*`), "$$${1}$$"},
	{regexp.MustCompile(`\\text\{(.*?)\}`), "${1}"},
	{regexp.MustCompile(`\\textbf\{(.*?)\}`), "${1}"},
	{regexp.MustCompile(`\\overline\{(.*?)\}`), "${1}"},
	{regexp.MustCompile(`\\boxed\{(.*)\}`), "${1}"},
	{regexp.MustCompile(`frac([^{])(.)`), "frac{${1}}{${2}}"},
	{regexp.MustCompile(`sqrt([^{])`), "sqrt{${1}}"},
}

// NormaliseDAPO is an answer as it is compared.
func NormaliseDAPO(answer string) string {
	answer = pytext.Last(answer, "=")
	for _, s := range substitutions {
		answer = strings.ReplaceAll(answer, s[0], s[1])
	}
	for _, r := range removed {
		answer = strings.ReplaceAll(answer, r, "")
	}
	for _, r := range rewritten {
		answer = r.pattern.ReplaceAllString(answer, r.by)
	}
	answer = strings.ReplaceAll(answer, "$", "")
	if digits := strings.ReplaceAll(answer, ",", ""); pytext.IsDigit(digits) {
		answer = digits
	}
	return pytext.Strip(answer)
}
