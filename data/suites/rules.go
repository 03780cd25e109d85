package suites

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/edits"
)

// Card: which replies are right, as lmms-eval's scripts of each suite have it.

// said returns the judged text: the last answer tag's text, or the whole reply.
func said(reply string) string {
	if tagged, ok := answers.TaggedAnswer(reply); ok {
		return tagged
	}
	return strings.TrimSpace(reply)
}

// letterForms are the ways in which a letter is chosen, the first that is found.
var letterForms = []*regexp.Regexp{
	regexp.MustCompile(`^([A-D])\s*[\.)\]]*`),
	regexp.MustCompile(`(?:THE\s+)?(?:ANSWER|CHOICE|OPTION)(?:\s+IS)?[\s:]+([A-D])`),
	regexp.MustCompile(`\(([A-D])\)`),
	regexp.MustCompile(`([A-D])\s*(?:\.|\)|])`),
	regexp.MustCompile(`(?:^|\s)([A-D])(?:\s|$)`),
}

var anyLetter = regexp.MustCompile(`[A-D]`)

func letter(q Question, reply string) bool {
	text := strings.ToUpper(strings.TrimSpace(reply))
	for _, form := range letterForms {
		if m := form.FindStringSubmatch(text); m != nil {
			return m[1] == q.Answer
		}
	}
	found := anyLetter.FindAllString(text, -1)
	return len(found) == 1 && found[0] == q.Answer
}

var beginnings = []string{"The best answer is", "The correct answer is", "The answer is", "The answer", "The best option is", "The correct option is", "Best answer:", "Best option:"}

var upToE = regexp.MustCompile(`[ABCDE]`)

// firstLetter is MME-RealWorld's: usual beginnings are taken away, and the first letter counts.
func firstLetter(q Question, reply string) bool {
	text := strings.TrimSpace(reply)
	for _, b := range beginnings {
		text = strings.ReplaceAll(text, b, "")
	}
	return upToE.FindString(text) == q.Answer
}

func relaxed(q Question, reply string) bool {
	s, err := answers.Relaxed{Share: 0.05}.Rule(reply, q.Answer)
	return err == nil && s.Value == 1
}

var (
	lettered   = regexp.MustCompile(`\(([a-zA-Z])\)`)
	quick      = regexp.MustCompile(`(?i)the (?:final )?answer is:? "?(.*?)"?\.?\s*$`)
	lastNumber = regexp.MustCompile(`-?\d[\d,]*(?:\.\d+)?`)
)

// mathRight normalises a reply as MathVista does, and compares it as text.
func mathRight(q Question, reply string) bool {
	text := strings.TrimSpace(reply)
	if m := quick.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	if len(q.Choices) > 0 {
		return chosen(q, text) == q.Answer
	}
	switch q.Kind {
	case "integer", "float":
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			all := lastNumber.FindAllString(text, -1)
			if len(all) == 0 {
				return false
			}
			if x, err = strconv.ParseFloat(strings.ReplaceAll(all[len(all)-1], ",", ""), 64); err != nil {
				return false
			}
		}
		if q.Kind == "integer" {
			return fmt.Sprint(int64(math.Trunc(x))) == q.Answer
		}
		return pythonFloat(x, q.Digits) == q.Answer
	}
	return text == q.Answer
}

// chosen is the text of the choice that a reply names: by its letter, or the nearest.
func chosen(q Question, text string) string {
	name := text
	if m := lettered.FindStringSubmatch(text); m != nil {
		name = strings.ToUpper(m[1])
	}
	if len(name) == 1 && name[0] >= 'A' && int(name[0]-'A') < len(q.Choices) {
		return q.Choices[name[0]-'A']
	}
	best, least := "", math.MaxInt
	for _, c := range q.Choices {
		if d := edits.Distance(name, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// pythonFloat is str(round(x, digits)): a whole number keeps one zero.
func pythonFloat(x float64, digits int) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil {
		return ""
	}
	text := strconv.FormatFloat(rounded, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
