package answers

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: DeepEyes (Visual-Agent/DeepEyes, vl_agent.py) rewards looking: a right answer after a
// picture that a tool gave back is worth more than a right answer.
//
//	reward = 0.8 right + 0.2 format + 1.2 [a picture was seen and the answer is right]
//	maths  = 1.2 right + 0.4 format
//
// format is 0, or -1 where tags do not come in pairs, the answer is missing, or it has 1000 characters or more (then
// it is wrong, too: length talks judges round). A language model judges whether an answer is right:
//
//	Visual     the answer is the text after the last <answer>, all of it without that tag; of
//	           the judge's text after "Judgement:" is right if it holds a 1, else they
//	           must be just 1
//	Reasoning  the answer is the first closed one after the last </think>; the judge says true, or
//	           false, and not both
//	Maths      the answer is the content of \boxed{...} up to the first closing brace, after the last
//	           </think>; two boxes are a format error, and the last is judged. A symbolic proof
//	           comes before the judge
//
// Upstream takes an unreadable judgement for "wrong"; a Judgement keeps it apart, and the reward
// is missing.
// Invariants (tests): rewards of right answers are above those of wrong ones.

// A Judgement is a judge's reading of an answer.
type Judgement int

// The judgements.
const (
	Unclear Judgement = iota
	Wrong
	Right
)

// DeepEyes is the reading of a reply's form, before a judge is asked.
type DeepEyes struct {
	Answer     string
	NeedsJudge bool // whether the judge's opinion counts
	BadFormat  bool
	Pictures   int // that tools gave back
}

const (
	pictureStart = "<|vision_start|><|image_pad|>"
	pictureEnd   = "<|image_pad|><|vision_end|>"
	longAnswer   = 1000
)

func unpaired(text, open, shut string) bool {
	return strings.Count(text, open) != strings.Count(text, shut)
}

func deepEyes(reply string) (d DeepEyes, thought string) {
	thought = pytext.Strip(pytext.Last(reply, "</think>"))
	d.Pictures = strings.Count(reply, pictureStart)
	d.BadFormat = unpaired(reply, "<think>", "</think>") || unpaired(reply, pictureStart, pictureEnd) || unpaired(thought, "<answer>", "</answer>")
	return d, thought
}

// DeepEyesVisual reads a reply to a question about a picture.
func DeepEyesVisual(reply string) DeepEyes {
	d, _ := deepEyes(reply)
	d.Answer = pytext.Strip(pytext.First(pytext.Last(reply, "<answer>"), "</answer>"))
	d.NeedsJudge = utf8.RuneCountInString(d.Answer) < longAnswer
	d.BadFormat = d.BadFormat || !d.NeedsJudge
	return d
}

// DeepEyesReasoning reads a reply to a question that wants reasons.
func DeepEyesReasoning(reply string) DeepEyes {
	d, thought := deepEyes(reply)
	a, _ := firstIn(answerTag, thought)
	d.Answer = pytext.Strip(a)
	d.NeedsJudge = d.Answer != "" && utf8.RuneCountInString(d.Answer) < longAnswer
	d.BadFormat = d.BadFormat || !d.NeedsJudge
	return d
}

var shortBox = regexp.MustCompile(`\\boxed\{([^}]+)\}`)

// DeepEyesMaths reads a reply to a question of mathematics.
func DeepEyesMaths(reply string) DeepEyes {
	d := DeepEyes{BadFormat: unpaired(reply, "<think>", "</think>")}
	all := shortBox.FindAllStringSubmatch(pytext.Strip(pytext.Last(reply, "</think>")), -1)
	d.BadFormat = d.BadFormat || len(all) != 1
	if d.NeedsJudge = len(all) > 0; d.NeedsJudge {
		d.Answer = all[len(all)-1][1]
	}
	return d
}

// Reward is that of questions about pictures.
func (d DeepEyes) Reward(v Judgement) float64 {
	right := d.right(v)
	return float64(0.8*right) + float64(0.2*d.format()) + float64(1.2*right*one(d.Pictures > 0))
}

// MathsReward is that of mathematics.
func (d DeepEyes) MathsReward(v Judgement) float64 {
	return float64(1.2*d.right(v)) + float64(0.4*d.format())
}

func (d DeepEyes) right(v Judgement) float64 { return one(d.NeedsJudge && v == Right) }

func (d DeepEyes) format() float64 { return -one(d.BadFormat) }

// JudgedOne reads a judge that answers 1 or 0.
func JudgedOne(reply string) Judgement {
	reply = pytext.Strip(reply)
	if i := strings.LastIndex(reply, "Judgement:"); i >= 0 {
		switch after := reply[i+len("Judgement:"):]; {
		case strings.Contains(after, "1"):
			return Right
		case strings.Contains(after, "0"):
			return Wrong
		}
		return Unclear
	}
	switch reply {
	case "1":
		return Right
	case "0":
		return Wrong
	}
	return Unclear
}

// JudgedTrue reads a judge that answers TRUE or FALSE under "## Equivalence Judgement".
func JudgedTrue(reply string) Judgement {
	said := pytext.Lower(pytext.Last(pytext.Strip(reply), "## Equivalence Judgement"))
	yes, no := strings.Contains(said, "true"), strings.Contains(said, "false")
	switch {
	case yes && !no:
		return Right
	case no && !yes:
		return Wrong
	}
	return Unclear
}
