package answers

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: VRAG-RL (Alibaba-NLP/VRAG) on answers that were searched for.
//
//	ANLS    average normalised Levenshtein similarity of one reply: 1 - d, where d, the distance
//	        over the longer length, is below a threshold, else 0; the best of several truths.
//	        Case counts; two empty texts are 1
//	NDCG    Σ 1/log2(rank + 1) over retrieved pages that are right, over the same of all right
//	        pages first, even of more than were retrieved. Pages that come twice count twice,
//	        so that it may pass 1: Once counts them once
//	Searched  an answer and a search tag, after the user's turns were taken out (only those
//	        written on one line: upstream's pattern does not cross line ends)
//
// Invariants (tests): the truth is 1, the ideal order is 1.

// ANLS compares with several truths.
func ANLS(reply string, truths []string, threshold float64) float64 {
	best := 0.0
	for _, t := range truths {
		longer := max(utf8.RuneCountInString(reply), utf8.RuneCountInString(t))
		d := 0.0
		if longer > 0 {
			d = float64(edits.Distance(reply, t)) / float64(longer)
		}
		if d < threshold {
			best = max(best, 1-d)
		}
	}
	return best
}

// ANLSReward is ANLS of the last turn's answer and the prompt's meta.answer, one or several.
func ANLSReward(threshold float64) rewards.Reward {
	return rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		reply, err := lastTurn(item)
		if err != nil {
			return rewards.Score{}, err
		}
		truths, err := item.Meta.Texts("answer")
		if err != nil {
			return rewards.Score{}, err
		}
		said, ok := AnswerBeforeEnd(reply)
		if !ok {
			return judged(0, "reply", reply), nil
		}
		return judged(ANLS(said, truths, threshold), "answer", said), nil
	})
}

// NDCG rates an order of pages.
func NDCG(pages, right []string, once bool) float64 {
	seen := map[string]bool{}
	got, ideal := 0.0, 0.0
	for i, p := range pages {
		if slices.Contains(right, p) && !(once && seen[p]) {
			got += 1 / portable.Log2(float64(i+2))
		}
		seen[p] = true
	}
	for i := range right {
		ideal += 1 / portable.Log2(float64(i+2))
	}
	if ideal == 0 {
		return 0
	}
	return got / ideal
}

// NDCGReward rates the order of names that the last answer tag lists, as JSON or one a line, against the
// prompt's meta.answer, one or several. A name counts once.
func NDCGReward() rewards.Reward {
	return rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		reply, err := lastTurn(item)
		if err != nil {
			return rewards.Score{}, err
		}
		right, err := item.Meta.Texts("answer")
		if err != nil {
			return rewards.Score{}, err
		}
		said, _ := TaggedAnswer(reply)
		names := namesIn(said)
		return judged(NDCG(names, right, true), "order", strings.Join(names, ", ")), nil
	})
}

// namesIn are the names of a list: JSON's, or lines without their bullets.
func namesIn(text string) (names []string) {
	v, err := pytext.JSON(text)
	if list, ok := v.([]any); err == nil && ok {
		for _, e := range list {
			names = append(names, written(e))
		}
		return names
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(pytext.Strip(line), "-* "); line != "" {
			names = append(names, line)
		}
	}
	return names
}

var (
	userLine   = regexp.MustCompile(`<\|im_start\|>user.*?<\|im_end\|>`)
	wideAnswer = regexp.MustCompile(`(?s)<answer>.*</answer>`)
	wideSearch = regexp.MustCompile(`(?s)<search>.*</search>`)
)

// Searched is the form of a reply that searched and answered.
func Searched(reply string) bool {
	reply = userLine.ReplaceAllString(reply, "")
	return wideAnswer.MatchString(reply) && wideSearch.MatchString(reply)
}

// AnswerBeforeEnd is the text before the last closing tag, from the last opening one before it.
func AnswerBeforeEnd(reply string) (string, bool) {
	end := strings.LastIndex(reply, "</answer>")
	if end < 0 {
		return "", false
	}
	start := strings.LastIndex(reply[:end], "<answer>")
	if start < 0 {
		return "", false
	}
	return reply[start+len("<answer>") : end], true
}

var verdictTag = regexp.MustCompile(`(?s)<judge>.*?</judge>`)

// JudgedTag reads <judge>True</judge>; true wins where both are said.
func JudgedTag(reply string) Judgement {
	said := verdictTag.FindString(reply)
	switch {
	case strings.Contains(said, "true") || strings.Contains(said, "True"):
		return Right
	case strings.Contains(said, "false") || strings.Contains(said, "False"):
		return Wrong
	}
	return Unclear
}
