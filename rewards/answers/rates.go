package answers

import (
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/edits"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: transcriptions (parsing and reading of documents): 1 less an error rate of jiwer's, and not below 0, of the
// content of the last answer tag, or of the whole reply without one.
//
//	cer  max(0, 1 - wrong characters / characters wanted)
//	wer  max(0, 1 - wrong words / words wanted)
//	mer  1 - wrong words / length of the alignment
//
// Invariants (tests): the truth is 1; nothing is 0.

// Rated makes a rule of an error rate of package edits.
func Rated(rate func(want, got string) float64) Rule {
	return func(reply, truth string) (rewards.Score, error) {
		said, ok := lastIn(answerTag, reply)
		if !ok {
			said = reply
		}
		return judged(max(0, 1-rate(pytext.Strip(truth), pytext.Strip(said))), "read", said), nil
	}
}

// CER, WER and MER are the three rules.
var (
	CER = Rated(edits.CER)
	WER = Rated(edits.WER)
	MER = Rated(edits.MER)
)
