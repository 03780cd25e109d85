package answers

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: exact match of open questions (verl, search_r1_like_qa_em.py, after SQuAD): the last answer tag and each
// right answer are lower-cased, lose ASCII punctuation and the words a, an and the, and have single spaces. Contained
// only asks that a right answer occurs in it. Without a tag both are 0. Invariants (tests): equal answers match;
// matching answers are also contained.
type ExactMatch struct {
	Contained bool // a right answer that occurs in the reply is enough
}

const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// letters and digits of any script are words' in Python, in Go's \b only ASCII ones.
var wordOrNot = regexp.MustCompile(`[\pL\p{N}_]+|[^\pL\p{N}_]+`)

// NormaliseQA is an answer as it is compared.
func NormaliseQA(answer string) string {
	answer = strings.Map(func(r rune) rune {
		if strings.ContainsRune(punctuation, r) {
			return -1
		}
		return r
	}, pytext.Lower(answer))
	answer = wordOrNot.ReplaceAllStringFunc(answer, func(w string) string {
		if w == "a" || w == "an" || w == "the" {
			return " "
		}
		return w
	})
	return strings.Join(pytext.Fields(answer), " ")
}

// Of judges an answer that was taken out of its tags.
func (e ExactMatch) Of(said string, right []string) bool {
	said = NormaliseQA(said)
	for _, r := range right {
		if r = NormaliseQA(r); said == r || e.Contained && strings.Contains(said, r) {
			return true
		}
	}
	return false
}

// TaggedAnswer is the last answer tag's text.
func TaggedAnswer(reply string) (string, bool) {
	a, ok := lastIn(answerTag, reply)
	return pytext.Strip(a), ok
}

// Score judges the last turn against the prompt's meta.answer, one or several.
func (e ExactMatch) Score(_ context.Context, item rewards.Item) (rewards.Score, error) {
	reply, err := lastTurn(item)
	if err != nil {
		return rewards.Score{}, err
	}
	right, err := item.Meta.Texts("answer")
	if err == nil && slices.Contains(right, "") {
		err = errNoTruth
	}
	if err != nil {
		return rewards.Score{}, err
	}
	said, ok := TaggedAnswer(reply)
	if !ok {
		return judged(0, "reply", reply), nil
	}
	return judged(one(e.Of(said, right)), "answer", said), nil
}
