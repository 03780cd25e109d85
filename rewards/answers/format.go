package answers

import (
	"regexp"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision/pytext"
)

// Card: does a reply think before it answers? Four forms, each a pattern of its project:
//
//	ThinkAnswer   <think>...</think>, white space, <answer>...</answer> and nothing else
//	              (VLM-R1, Visual-RFT, EasyR1 r1v). The gaps are lazy, so more tags may hide in them
//	Thinks        begins with <think>, which comes once, and ends it (TRL)
//	ThinkBoxed    <think>...</think>, then \boxed{...} anywhere (EasyR1 math)
//	ThinkBox      somewhere, <think>...</think> and <answer> with four whole numbers in brackets
//	              within braces (VLM-R1, referring expressions)
//
// Invariant (test): Thinks accepts each reply that ThinkAnswer accepts, unless it thinks twice.

// ThinkAnswer is the form of R1.
func ThinkAnswer(reply string) bool { return thinkAnswer.MatchString(reply) }

// ThinkBoxed is the form for mathematics.
func ThinkBoxed(reply string) bool { return thinkBoxed.MatchString(reply) }

// ThinkBox is the form for boxes.
func ThinkBox(reply string) bool { return thinkBox.MatchString(reply) }

// Thinks is TRL's form.
func Thinks(reply string) bool {
	rest, ok := strings.CutPrefix(reply, "<think>")
	return ok && !strings.Contains(rest, "<think>") && strings.Contains(rest, "</think>")
}

const number = `\p{Nd}+`
const comma = `,` + pytext.SpaceClass + `*`

var (
	thinkAnswer = regexp.MustCompile(`(?s)\A<think>.*?</think>` + pytext.SpaceClass + `*<answer>.*?</answer>\z`)
	thinkBoxed  = regexp.MustCompile(`(?s)\A<think>.*</think>.*\\boxed\{.*\}.*\z`)
	thinkBox    = regexp.MustCompile(`(?s)<think>.*?</think>` + pytext.SpaceClass + `*<answer>.*?\{.*\[` +
		number + comma + number + comma + number + comma + number + `\].*\}.*?</answer>`)
)

// FormatKind is reward format.
var FormatKind = rewards.Kind{
	Name:    "format",
	Card:    "An answer in the form that was asked for.",
	Paper:   "DeepSeek-R1 (Guo et al., 2025)",
	Cases:   []string{"vlm.reward_format", "vlm.reward_rec_format", "vlm.reward_vrag_format"},
	Judges:  rewards.Replies,
	Traits:  rewards.Rule,
	Options: RuleKey{},
	Check:   rewards.Checks(func(k RuleKey, report rewards.Report) { check("rule", k.Rule, "format", true, report) }),
	Bounds:  rewards.Unit,
	Open: rewards.Opens(func(k RuleKey, _ rewards.Bench) (rewards.Opened, error) {
		form, err := named(k.Rule, true)
		return rewards.One(form), err
	}),
}
