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

// Card: one question about an item, the user's own or a published one. Its blanks: {prompt} is meta.question or else
// the prompt, {truth} is meta.answer, {answer} is the content of the last answer tag of the last turn, or the whole
// turn without one, {conversation} is the whole conversation, a turn a paragraph, with the names of tools that were
// called. Pictures and the frames of clips are shown, behind those that they were made of; of a conversation its
// pictures, where Looks is set.
//
//	read    the model's reply                        score
//	one     1 or 0, or that after "Judgement:"         1 or 0
//	true    TRUE or FALSE                              1 or 0
//	judge   <judge>True</judge>                        1 or 0
//	score   <Score>4</Score>                           over 5
//	final   Final Score: 4, from 1 to 5                over 5
//
// VRAG's (rm_phase.py) is read by judge, and a reply without an answer tag is 0 there, unasked. With First, a rule is
// asked before the model: an answer that it calls right is 1, and costs no call; the judge decides the others, and
// those that the rule cannot compare. A reply of the model that cannot be read is asked for again, up to Tries; then
// there is no score. Invariants (tests): an unreadable reply is missing, never 0.
type Question struct {
	Model  Completer
	Text   string
	Read   string
	Tagged bool // a reply without an answer tag is 0, and not asked about
	Tries  int  // 8
	Looks  bool // the pictures of a conversation are shown

	First rewards.Reward // nil: the model is asked about every reply
}

// VRAG judges answers to questions about documents.
func VRAG(m Completer) (Question, error) {
	text, err := question("vrag")
	return Question{Model: m, Text: text, Read: "judge", Tagged: true}, err
}

// readings are the ways to read an answer.
var readings = map[string]func(reply string) (float64, bool){
	"one":   judgement(answers.JudgedOne),
	"true":  judgement(answers.JudgedTrue),
	"judge": judgement(answers.JudgedTag),
	"score": Tag,
	"final": func(reply string) (float64, bool) {
		v, ok := FinalFrom1(reply)
		return v / 5, ok
	},
}

func judgement(read func(string) answers.Judgement) func(string) (float64, bool) {
	return func(reply string) (float64, bool) {
		v := read(reply)
		return float64(v - answers.Wrong), v != answers.Unclear
	}
}

var errNotShown = errors.New("the judge's question has neither {answer} nor {conversation}, so that it would not see the reply")

// Score asks about an item.
func (q Question) Score(ctx context.Context, item rewards.Item) (rewards.Score, error) {
	read, ok := readings[q.Read]
	if !ok {
		return rewards.Score{}, fmt.Errorf("no judge's answer is read as %q: it is one, true, judge, score or final", q.Read)
	}
	if s, ok := q.right(ctx, item); ok {
		return s, nil
	}
	blanks := Blanks{Prompt: asked(item), Conversation: conversation(item)}
	var pictures []*vision.Image
	var err error
	if item.Transcript == nil {
		pictures, err = picturesOf(item)
		pictures = slices.Concat(item.Sources, pictures)
	} else if blanks.Answer, ok, err = answered(item.Transcript); err == nil && !strings.Contains(q.Text, "{answer}") && !strings.Contains(q.Text, "{conversation}") {
		err = errNotShown
	} else if !ok && q.Tagged && err == nil {
		s := rewards.Score{}
		s.Because("format", "no answer tag")
		return s, nil
	}
	if q.Looks && item.Transcript != nil {
		pictures = item.Transcript.Shown
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

// right is the score of a reply that needs no judge.
func (q Question) right(ctx context.Context, item rewards.Item) (s rewards.Score, ok bool) {
	if q.First == nil || item.Transcript == nil {
		return s, false
	}
	s, err := q.First.Score(ctx, item)
	if err != nil || s.Value != 1 {
		return s, false
	}
	s.Because("judge", "not asked: the rule calls it right")
	return s, true
}

// conversation is the text of an episode, for a judge to read; "" for other items.
func conversation(item rewards.Item) string {
	if item.Transcript == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "User: %s", item.Prompt)
	for _, t := range item.Transcript.Turns {
		fmt.Fprintf(&b, "\n\nAssistant: %s", t.Text)
		if t.Tool != "" {
			fmt.Fprintf(&b, "\n\n(tool %s was called)", t.Tool)
		}
	}
	return b.String()
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

// insist repeats a question until its answer can be read. Each repetition is another question, so that the cache does
// not answer it. A model that repeats an unreadable answer will repeat it again: a model that does not know the form
// is asked twice, and not up to the number of tries.
func insist(ctx context.Context, m Completer, pictures []*vision.Image, text string, tries int, clear func(reply string) bool) (said string, err error) {
	if tries <= 0 {
		tries = 8
	}
	before := ""
	for n := range tries {
		if said, err = m.Complete(ctx, pictures, text+strings.Repeat("\n", n)); err != nil || clear(said) {
			return said, err
		}
		if n > 0 && said == before && said != "" {
			return said, fmt.Errorf("%w, and the next one is the same: %.200q\nhint: the judge's model may not know this form of question; judge.form names others", errUnreadable, said)
		}
		before = said
	}
	return said, fmt.Errorf("%w, %d times: %.200q", errUnreadable, tries, said)
}

// VRAGForm is form vrag.
var VRAGForm = Form{
	Name:     "vrag",
	Card:     "Whether an answer about documents is right; a reply without an answer tag is 0, unasked (VRAG).",
	Judges:   rewards.Replies,
	Truth:    true,
	Nameless: true,
	New:      func(_ Options, m Model) (rewards.Reward, error) { return VRAG(m) },
}

// QuestionForm is form question.
var QuestionForm = Form{
	Name:     "question",
	Card:     "A question of your own, whose blanks are filled in.",
	Judges:   rewards.Everything,
	Own:      true,
	Nameless: true,
	New: func(o Options, m Model) (rewards.Reward, error) {
		q := Question{Model: m, Text: o.Question, Read: o.Read, Looks: o.Looks}
		if rule, ok := answers.Find(o.First, false); ok && o.First != "" {
			q.First = rule.New()
		}
		return q, nil
	},
}
