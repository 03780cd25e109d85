package lessons

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/data/sft"
)

// Card: answers of a file that somebody judged, for objectives dpo and kto: a row's answers are the samples of its
// group, the better one first, or one that is good or bad. Tokens and pictures are those of a rollout, and of a
// conversation the answer alone is trained: the tokens after the prompt.
//
// Invariant (test): tokens of a row's answers are those of the same conversations as lessons, and begin alike.

// An Answer is a judged answer's tokens, with its pictures.
type Answer struct {
	sft.Lesson
	Media
	Good     bool
	question string // for people
}

// Judged are a row's answers. Of rows with another number of them it is an error.
func (t *Reader) Judged(row, file string, n int) (all []Answer, err error) {
	read, err := sft.ReadPreference(row)
	if err != nil {
		return nil, err
	}
	if len(read) != n {
		return nil, fmt.Errorf("the row has %d judged answers, and rollout.group is %d\nhint: group = 1 for rows with a label, 2 for pairs; a file has one kind", len(read), n)
	}
	for _, j := range read {
		a := Answer{Good: j.Good, question: j.Question()}
		if a.Media, err = t.media(file, j.Conversation); err != nil {
			return nil, err
		}
		if a.Lesson, err = t.whole(j.Conversation, a.Media); err != nil {
			return nil, err
		}
		untrain(a.Trained, saidBy("assistant", j))
		if a.Count() == 0 {
			return nil, fmt.Errorf("no token of an answer is trained")
		}
		all = append(all, a)
	}
	return all, nil
}

// saidBy is how many messages of the prompt are a party's.
func saidBy(role string, j sft.Judged) (n int) {
	for _, m := range j.Messages[:j.PromptMessages] {
		if m.Role == role {
			n++
		}
	}
	return n
}

// untrain takes out the first n stretches of trained tokens: the assistant's turns in the prompt.
func untrain(trained []bool, n int) {
	for i := 0; i < len(trained) && n > 0; i++ {
		if trained[i] && (i+1 == len(trained) || !trained[i+1]) {
			n--
		}
		trained[i] = false
	}
}
