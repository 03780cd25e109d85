package answers

import (
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: which letter a reply chooses, as VLM-R1 guesses it. In capitals, a letter with none
// before it and one of . , ? ! : ; or the end after it is a candidate. Of several, the one with
// the most points wins, the first of equals: a point for each word such as "answer" within 20
// characters, two in the last 30 % of the text, one for a punctuation mark after it, all times
// how often the letter is a candidate. Points are given where the letter FIRST stands in the
// text, even within a word: that is upstream's.
// Invariant (test): one candidate wins without points.

var choiceWords = strings.Fields("答案 选择 正确 是 对 ANSWER CORRECT CHOOSE SELECT RIGHT 认为 应该 觉得 THINK BELIEVE SHOULD")

// Choice is the letter that a text chooses.
func Choice(text string) (string, bool) {
	t := oneSpaced(pytext.Upper(text))
	capital := func(r rune) bool { return r >= 'A' && r <= 'Z' }
	var candidates []rune
	times := map[rune]int{}
	for i, r := range t {
		lone := capital(r) && (i == 0 || !capital(t[i-1]))
		if lone && (i == len(t)-1 || strings.ContainsRune(".,?!:;", t[i+1])) {
			if times[r]++; times[r] == 1 {
				candidates = append(candidates, r)
			}
		}
	}
	if len(candidates) == 0 {
		return "", false
	}
	best, most := candidates[0], -1
	for _, c := range candidates {
		if p := times[c] * points(t, slices.Index(t, c)); p > most {
			best, most = c, p
		}
	}
	return string(best), true
}

func points(t []rune, at int) int {
	n := 0
	around := string(t[max(0, at-20):min(len(t), at+20)])
	for _, word := range choiceWords {
		if strings.Contains(around, word) {
			n++
		}
	}
	if float64(at) > float64(len(t))*0.7 {
		n += 2
	}
	if at < len(t)-1 && strings.ContainsRune("。.!！,，", t[at+1]) {
		n++
	}
	return n
}

// oneSpaced makes runs of white space one space.
func oneSpaced(text string) []rune {
	var out []rune
	for _, r := range text {
		if !pytext.Space(r) {
			out = append(out, r)
		} else if len(out) == 0 || out[len(out)-1] != ' ' {
			out = append(out, ' ')
		}
	}
	return out
}

// MultipleChoice is 1 for the truth's letter.
func MultipleChoice(reply, truth string) (rewards.Score, error) {
	right, ok := Choice(truthLine(truth))
	if !ok {
		right = pytext.Strip(truth)
	}
	a, found := firstIn(answerTag, reply)
	choice, ok := Choice(orWhole(a, found, reply))
	return judged(one(ok && choice == right), "choice", choice), nil
}
