package answers

import (
	"context"
	"errors"
	"regexp"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// A Rule judges a reply by itself, against the right answer of the prompts file.
type Rule func(reply, truth string) (rewards.Score, error)

// For is the rule for truths that can be read: another one is nothing to compare with, and no reply has a score.
func (r Rule) For(readable func(truth string) error) Rule {
	return func(reply, truth string) (rewards.Score, error) {
		if err := readable(truth); err != nil {
			return rewards.Score{}, err
		}
		return r(reply, truth)
	}
}

// Reward makes a reward of a rule: it judges the last turn, against the prompt's meta.answer.
func (r Rule) Reward() rewards.Reward {
	return rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		reply, err := lastTurn(item)
		if err != nil {
			return rewards.Score{}, err
		}
		truth, err := item.Meta.Text("answer")
		if err == nil && truth == "" {
			err = errNoTruth
		}
		if err != nil {
			return rewards.Score{}, err
		}
		return r(reply, truth)
	})
}

// errNoTruth is of a text that every reply, or an empty one, would agree with.
var errNoTruth = errors.New("meta.answer of the prompt is empty, so that nothing can be right")

var errNoReply = errors.New("there is no reply to judge")

func lastTurn(item rewards.Item) (string, error) {
	if item.Transcript == nil || len(item.Transcript.Turns) == 0 {
		return "", errNoReply
	}
	return item.Transcript.Last(), nil
}

// A Form judges how a reply is written, whatever it says.
type Form func(reply string) bool

// Reward is 1 for a reply in the form, else 0.
func (f Form) Reward() rewards.Reward {
	return rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		reply, err := lastTurn(item)
		if err != nil {
			return rewards.Score{}, err
		}
		s := rewards.Score{Value: one(f(reply))}
		s.Because("format", "%s", shown(reply))
		return s, nil
	})
}

// one is 1 for true, 0 for false.
func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// judged is a score that rests on one reading of the reply.
func judged(value float64, what, read string) rewards.Score {
	s := rewards.Score{Value: value}
	s.Because(what, "%s", shown(read))
	return s
}

// shown is text for people: a ledger holds many.
func shown(text string) string {
	if r := []rune(text); len(r) > 200 {
		return string(r[:100]) + " ... " + string(r[len(r)-100:])
	}
	return text
}

// Patterns of the text between <answer> and the next </answer>. Some projects let it cross lines, some do not; some
// take the first, some the last.
var (
	answerTag  = regexp.MustCompile(`(?s)<answer>(.*?)</answer>`)
	answerLine = regexp.MustCompile(`<answer>(.*?)</answer>`)
)

// firstIn is the first group of the first match.
func firstIn(r *regexp.Regexp, text string) (string, bool) {
	if m := r.FindStringSubmatch(text); m != nil {
		return m[1], true
	}
	return "", false
}

// lastIn is the first group of the last match.
func lastIn(r *regexp.Regexp, text string) (string, bool) {
	all := r.FindAllStringSubmatch(text, -1)
	if all == nil {
		return "", false
	}
	return all[len(all)-1][1], true
}

// orWhole is the found text, or else the whole text, stripped.
func orWhole(found string, ok bool, text string) string {
	if !ok {
		found = text
	}
	return pytext.Strip(found)
}
