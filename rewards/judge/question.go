package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: one question about an item, the user's own or a published one. Its blanks: {prompt} is meta.question or
// else the prompt, {truth} is meta.answer, {answer} is what the last answer tag of the last turn holds, or the
// whole turn where there is none. Pictures and the frames of clips are shown, behind those that they were made of;
// conversations are text alone.
//
//	read    what the model must say                    score
//	one     1 or 0, or that after "Judgement:"         1 or 0
//	true    TRUE or FALSE                              1 or 0
//	judge   <judge>True</judge>                        1 or 0
//	score   <Score>4</Score>                           over 5
//	final   Final Score: 4, from 1 to 5                over 5
//
// VRAG's (rm_phase.py) is read by judge, and a reply without an answer tag is 0 there, unasked.
// A reply of the model that cannot be read is asked for again, up to Tries; then there is no score.
// Invariants (tests): what cannot be read is missing, never 0.
type Question struct {
	Model  Asker
	Text   string
	Read   string
	Tagged bool // a reply without an answer tag is 0, and not asked about
	Tries  int  // 8
}

// VRAG judges answers to questions about documents.
func VRAG(m Asker) (Question, error) {
	text, err := question("vrag")
	return Question{Model: m, Text: text, Read: "judge", Tagged: true}, err
}

// readings are the ways to read an answer.
var readings = map[string]func(reply string) (float64, bool){
	"one":   verdict(answers.JudgedOne),
	"true":  verdict(answers.JudgedTrue),
	"judge": verdict(answers.JudgedTag),
	"score": Tag,
	"final": func(reply string) (float64, bool) {
		v, ok := FinalFrom1(reply)
		return v / 5, ok
	},
}

func verdict(read func(string) answers.Verdict) func(string) (float64, bool) {
	return func(reply string) (float64, bool) {
		v := read(reply)
		return float64(v - answers.Wrong), v != answers.Unclear
	}
}

var errNotShown = errors.New("the judge's question has no {answer}, so that it would not see the reply")

// Score asks about an item.
func (q Question) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	read, ok := readings[q.Read]
	if !ok {
		return rewards.Score{}, fmt.Errorf("no judge's answer is read as %q: it is one, true, judge, score or final", q.Read)
	}
	blanks := Blanks{Prompt: asked(item)}
	var pictures []*vision.Image
	var err error
	if item.Transcript == nil {
		pictures, err = picturesOf(item)
		pictures = slices.Concat(item.Sources, pictures)
	} else if blanks.Answer, ok, err = answered(item.Transcript); err == nil && !strings.Contains(q.Text, "{answer}") {
		err = errNotShown
	} else if !ok && q.Tagged && err == nil {
		s := rewards.Score{}
		s.Because("format", "no answer tag")
		return s, nil
	}
	if err == nil && strings.Contains(q.Text, "{truth}") {
		blanks.Truth, err = truthOf(item.Meta)
	}
	if err != nil {
		return rewards.Score{}, err
	}
	s := rewards.Score{}
	said, err := insist(ctx, q.Model, pictures, blanks.in(q.Text), q.Tries, func(reply string) (clear bool) {
		s.Value, clear = read(reply)
		return clear
	})
	s.Because("judge", "%s", said)
	return s, err
}

// asked is the question that an item answers.
func asked(item rewards.Item) string {
	if q, err := item.Meta.Text("question"); err == nil {
		return q
	}
	return item.Prompt
}

// answered is the last turn's tagged answer, or all of the turn and false.
func answered(t *rewards.Transcript) (string, bool, error) {
	if len(t.Turns) == 0 {
		return "", false, errNoReply
	}
	if a, ok := answers.TaggedAnswer(t.Last()); ok {
		return a, true, nil
	}
	return t.Last(), false, nil
}

// truthOf is the right answer; several are one a line.
func truthOf(m rewards.Meta) (string, error) {
	all, err := m.Texts("answer")
	return strings.Join(all, "\n"), err
}

// insist repeats a question until its answer can be read. Each repetition is another question, so
// that what was remembered of the first is not given again.
func insist(ctx context.Context, m Asker, pictures []*vision.Image, text string, tries int, clear func(reply string) bool) (said string, err error) {
	if tries <= 0 {
		tries = 8
	}
	for n := range tries {
		if said, err = m.Ask(ctx, pictures, text+strings.Repeat("\n", n)); err != nil || clear(said) {
			return said, err
		}
	}
	return said, fmt.Errorf("%w, %d times: %.200q", errUnreadable, tries, said)
}
