package experiment

import (
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
)

// Rules that rewards accuracy, tools and format may judge replies by: package answers has their
// cards. What is empty in a file is the first of its kind.

// A RuleName is a rule of reward accuracy (and tools), or a form of reward format.
type RuleName struct {
	Name
	form   bool
	reward func() rewards.Reward
}

// Rules are all there are.
func Rules() []RuleName {
	other := func(name, card string, r func() rewards.Reward) RuleName {
		return RuleName{Name{Name: name, Card: card}, false, r}
	}
	rule := func(name, card string, r answers.Rule) RuleName { return other(name, card, r.Reward) }
	form := func(name, card string, f answers.Form) RuleName {
		return RuleName{Name{Name: name, Card: "Form. " + card}, true, f.Reward}
	}
	return []RuleName{
		rule("default", "VLM-R1: the same number, or a text that is alike.", answers.Default),
		rule("same", "VLM-R1: equal once cleaned.", answers.Same),
		rule("yes_no", "VLM-R1: yes or no.", answers.YesNo),
		rule("choice", "VLM-R1: the letter of a choice.", answers.MultipleChoice),
		rule("boxed", "The last \\boxed{} as MATH compares it (verl).", answers.Boxed),
		rule("dapo", "What follows the last \"Answer:\": 1 or -1 (DAPO).", answers.DAPO),
		rule("gsm8k", "The last \"#### number\" (verl).", answers.GSM8K{}.Rule),
		rule("gsm8k_flexible", "The last number (verl).", answers.GSM8K{Flexible: true}.Rule),
		other("exact_match", "Equal once normalised as SQuAD does (verl, Search-R1).", func() rewards.Reward { return answers.ExactMatch{} }),
		other("contained", "A right answer stands within (verl, Search-R1).", func() rewards.Reward { return answers.ExactMatch{Contained: true} }),
		other("anls", "Average normalised Levenshtein similarity, from one half on (VRAG).", func() rewards.Reward { return answers.ANLSReward(0.5) }),
		rule("relative", "Mean relative accuracy of the first number (PyVision-RL).", answers.Relative{}.Rule),
		rule("number", "The first number is the same (PyVision-RL).", answers.Relative{Exact: true}.Rule),
		other("grounding", "Intersection over union of one box (VLM-R1).", answers.GroundingReward),
		rule("detection", "Positions by intersection over union (Visual-RFT).", answers.DetectionIoU),
		rule("detection_confidence", "How sure it is of positions (Visual-RFT).", answers.DetectionConfidence),
		rule("map", "Average precision of boxes (VLM-R1).", answers.MAP{}.Rule),
		rule("map_length", "Average precision, boxes too many cost (VLM-R1).", answers.MAP{Length: true}.Rule),
		rule("detected", "Average precision of boxes in an answer tag, where None is right if it is the truth (VLM-R1).", answers.MAP{}.Detected),
		rule("weighted", "VLM-R1's weighted sum for boxes.", answers.Weighted),
		form("think_answer", "<think>...</think><answer>...</answer> and nothing else.", answers.ThinkAnswer),
		form("think_boxed", "<think>...</think>, then \\boxed{}.", answers.ThinkBoxed),
		form("think_box", "<think>...</think> and an answer with four numbers.", answers.ThinkBox),
		form("thinks", "It begins with <think>, once, and ends it (TRL).", answers.Thinks),
	}
}

// ruleNamed is a rule, or the first of its kind.
func ruleNamed(name string, form bool) (RuleName, bool) {
	for _, r := range Rules() {
		if r.form == form && (name == "" || r.Name.Name == name) {
			return r, true
		}
	}
	return RuleName{}, false
}

// ruleNames are those of a kind.
func ruleNames(form bool) (names []string) {
	for _, r := range Rules() {
		if r.form == form {
			names = append(names, r.Name.Name)
		}
	}
	return names
}
