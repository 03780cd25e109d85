package answers

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: relaxed accuracy (ChartQA, Masry et al., 2022; as pix2struct's metrics.py has it). A number is right within a
// share of the true one, 5 % there:
//
//	|said - true| / |true| <= Share     in float64, as upstream: 46.2 is not within 5 % of 44
//
// "42%" is 0.42 on both sides. Other texts, and a truth of 0, must be equal but for their case. The reply is the
// content of its answer tag, or else all of it: upstream's replies are nothing but the answer. Invariants (tests):
// the truth is right; a share of 0 is equality.
type Relaxed struct{ Share float64 }

// Rule judges a reply.
func (r Relaxed) Rule(reply, truth string) (rewards.Score, error) {
	said, tagged := TaggedAnswer(reply)
	if !tagged {
		said = reply
	}
	said, truth = pytext.Strip(said), pytext.Strip(truth)
	want, isNumber := share(truth)
	got, number := share(said)
	if !isNumber || want == 0 || !number {
		return judged(one(pytext.Lower(said) == pytext.Lower(truth)), "answer", said), nil
	}
	return judged(one(math.Abs(got-want)/math.Abs(want) <= r.Share), "number", fmt.Sprint(got)), nil
}

// share is a text as a number, of a percentage its hundredth.
func share(text string) (float64, bool) {
	if of, percent := strings.CutSuffix(text, "%"); percent {
		x, ok := pytext.Float(of)
		return x / 100, ok
	}
	return pytext.Float(text)
}

// within is the share that a rule's name "within:5" means, in percent.
func within(name string) (share float64, ok bool) {
	percent, ok := strings.CutPrefix(name, "within:")
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(percent, 64)
	return x / 100, err == nil && x >= 0 && x <= 100
}
