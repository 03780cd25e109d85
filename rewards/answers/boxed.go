package answers

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: answers of MATH (verl, math_reward.py, after Hendrycks et al.): the last \boxed{...} with
// braces in balance, or \fbox{...}; both sides are rewritten by rules of text and compared. Where
// a rule would raise, both sides are compared as they are.
// Invariants (tests): the truth in a box is 1; without a box 0.

// LastBoxed is the last box of a text, with its braces.
func LastBoxed(text string) (string, bool) {
	if strings.Contains(text, `\boxed `) {
		return `\boxed ` + pytext.First(pytext.Last(text, `\boxed `), "$"), true
	}
	from := strings.LastIndex(text, `\boxed`)
	if from < 0 {
		from = strings.LastIndex(text, `\fbox`)
	}
	if from < 0 {
		return "", false
	}
	open := 0
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return text[from : i+1], true
			}
		}
	}
	return "", false
}

// Unboxed returns the content of a box. An \fbox is found but not opened: upstream's assertion.
func Unboxed(boxed string) (string, bool) {
	if strings.Contains(boxed, `\boxed `) {
		return strings.CutPrefix(boxed, `\boxed `)
	}
	inner, ok := strings.CutPrefix(boxed, `\boxed{`)
	if !ok || !strings.HasSuffix(boxed, "}") || inner == "" {
		return "", false
	}
	return inner[:len(inner)-1], true
}

// Boxed judges a reply.
func Boxed(reply, truth string) (rewards.Score, error) {
	box, _ := LastBoxed(reply)
	said, ok := Unboxed(box)
	if !ok {
		return judged(0, "reply", reply), nil
	}
	a, fine := NormaliseMATH(said)
	b, too := NormaliseMATH(truth)
	if !fine || !too {
		a, b = said, truth
	}
	return judged(one(a == b), "answer", a), nil
}

// NormaliseMATH is an answer as it is compared, and whether the rules went through.
func NormaliseMATH(s string) (string, bool) {
	for _, r := range [][2]string{
		{"\n", ""}, {`\!`, ""}, {`\\`, `\`}, {"tfrac", "frac"}, {"dfrac", "frac"}, {`\left`, ""}, {`\right`, ""}, {`^{\circ}`, ""}, {`^\circ`, ""}, {`\$`, ""},
	} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	if n := strings.Count(s, `\text{ `); n == 1 { // a unit on the right
		s = pytext.First(s, `\text{ `)
	} else if n > 1 {
		return "", false
	}
	for _, r := range [][2]string{{`\\%`, ""}, {`\%`, ""}, {" .", " 0."}, {"{.", "{0."}} {
		s = strings.ReplaceAll(s, r[0], r[1])
	}
	if s == "" {
		return s, true
	}
	if s[0] == '.' {
		s = "0" + s
	}
	if name, value, ok := strings.Cut(s, "="); ok && len([]rune(name)) <= 2 && !strings.Contains(value, "=") {
		s = value
	}
	s, ok := bracedRoots(s)
	if !ok {
		return "", false
	}
	s = strings.ReplaceAll(s, " ", "")
	if s, ok = bracedFractions(s); !ok {
		return "", false
	}
	if s == "0.5" {
		s = `\frac{1}{2}`
	}
	if m := slashed.FindStringSubmatch(s); m != nil {
		s = `\frac{` + m[1] + `}{` + m[2] + `}`
	}
	return s, true
}

// slashed is a quotient of two integers as Python writes them.
var slashed = regexp.MustCompile(`\A(0|-?[1-9][0-9]*)/(0|-?[1-9][0-9]*)\z`)

// bracedRoots makes \sqrt3 \sqrt{3}. A root of nothing raises upstream.
func bracedRoots(s string) (string, bool) {
	parts := strings.Split(s, `\sqrt`)
	out := parts[0]
	for _, p := range parts[1:] {
		r := []rune(p)
		if len(r) == 0 {
			return "", false
		}
		if r[0] != '{' {
			p = "{" + string(r[0]) + "}" + string(r[1:])
		}
		out += `\sqrt` + p
	}
	return out, true
}

// bracedFractions makes \frac1b and \frac12 \frac{1}{b} and \frac{1}{2}; where one is of a single
// character, nothing is changed. A fraction of nothing raises upstream.
func bracedFractions(s string) (string, bool) {
	parts := strings.Split(s, `\frac`)
	out := parts[0]
	for _, p := range parts[1:] {
		r := []rune(p)
		switch {
		case len(r) == 0:
			return "", false
		case r[0] == '{':
		case len(r) < 2:
			return s, true
		case r[1] == '{':
			p = "{" + string(r[0]) + "}" + string(r[1:])
		default:
			p = "{" + string(r[0]) + "}{" + string(r[1]) + "}" + string(r[2:])
		}
		out += `\frac` + p
	}
	return out, true
}
