package answers

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
)

// Rules and forms by the names that an experiment's file calls them: one line each. The first of its kind
// is the default.

// A Named is a rule of reward accuracy (and tools), or a form of reward format.
type Named struct {
	Name, Card string
	Form       bool
	New        func() rewards.Reward
}

// All are the rules, and behind them the forms.
func All() []Named {
	other := func(name, card string, r func() rewards.Reward) Named { return Named{name, card, false, r} }
	rule := func(name, card string, r Rule) Named { return other(name, card, r.Reward) }
	form := func(name, card string, f Form) Named { return Named{name, "Form. " + card, true, f.Reward} }
	return []Named{
		rule("default", "VLM-R1: the same number, or a text that is alike.", Default),
		rule("same", "VLM-R1: equal once cleaned.", Same),
		rule("yes_no", "VLM-R1: yes or no.", Rule(YesNo).For(saysYesNo)),
		rule("choice", "VLM-R1: the letter of a choice.", MultipleChoice),
		rule("boxed", "The last \\boxed{} as MATH compares it (verl).", Boxed),
		rule("dapo", "What follows the last \"Answer:\": 1 or -1 (DAPO).", DAPO),
		rule("gsm8k", "The last \"#### number\" (verl).", GSM8K{}.Rule),
		rule("gsm8k_flexible", "The last number (verl).", GSM8K{Flexible: true}.Rule),
		other("exact_match", "Equal once normalised as SQuAD does (verl, Search-R1).", func() rewards.Reward { return ExactMatch{} }),
		other("contained", "The reply contains the right answer (verl, Search-R1).", func() rewards.Reward { return ExactMatch{Contained: true} }),
		other("anls", "Average normalised Levenshtein similarity, from one half on (VRAG).", func() rewards.Reward { return ANLSReward(0.5) }),
		rule("cer", "1 less the rate of wrong characters: text that was read.", CER),
		rule("wer", "1 less the rate of wrong words (jiwer).", WER),
		rule("mer", "1 less the share of wrong matches among words (jiwer).", MER),
		other("ndcg", "Gain of the order in which the answer lists names, against the right ones (VRAG).", NDCGReward),
		rule("relative", "Mean relative accuracy of the first number (PyVision-RL).", Relative{}.Rule),
		rule("number", "The first number is the same (PyVision-RL).", Relative{Exact: true}.Rule),
		rule("relaxed", "The number is within 5 % of the true one, or the text the same (ChartQA); within:2 is within 2 %.", Relaxed{0.05}.Rule),
		rule("final_answer", "What follows \"### The final answer is:\" is the same (R1-VL).", FinalAnswer),
		other("key_steps", "StepRAR: the share of meta.key_steps found in the reply's steps (R1-VL).", func() rewards.Reward { return KeySteps{} }),
		other("grounding", "Intersection over union of one box (VLM-R1); meta.answer is <answer>[x0, y0, x1, y1]</answer>, meta.seen and meta.original the sizes [width, height] of the picture that the model saw and of the file. With a detector's folder at path the truth is its box of meta.label in the picture.", GroundingReward),
		rule("giou", "Generalised intersection over union of one box, plus 1: 0 to 2 (Visual-RFT); meta.answer is [x0, y0, x1, y1].", GIoU),
		rule("detection", "Positions by intersection over union (Visual-RFT).", DetectionIoU),
		rule("detection_confidence", "How sure it is of positions (Visual-RFT).", DetectionConfidence),
		rule("map", "Average precision of boxes (VLM-R1); meta.answer is a ```json block of [{\"bbox_2d\": [x0, y0, x1, y1], \"label\": ...}].", Rule(MAP{}.Rule).For(hasBoxes)),
		rule("map_length", "Average precision, boxes too many cost (VLM-R1); meta.answer as of map.", Rule(MAP{Length: true}.Rule).For(hasBoxes)),
		rule("detected", "Average precision of boxes in an answer tag, where None is right if it is the truth (VLM-R1); meta.answer is <answer>None</answer>, or the block of map in such tags.", Rule(MAP{}.Detected).For(hasDetected)),
		rule("weighted", "VLM-R1's weighted sum for boxes; meta.answer as of map.", Rule(Weighted).For(hasBoxes)),
		rule("spotting", "Texts with their boxes, matched by intersection over union and compared letter by letter (HunyuanOCR).", hunyuan(Spotting)),
		rule("document_layout", "Regions of a page with their kinds and texts (HunyuanOCR).", hunyuan(DocumentLayout)),
		rule("parsing", "A document as text, and its tables by TEDS (HunyuanOCR).", hunyuan(Parsing)),
		rule("fields", "Information as an object of JSON, field by field (HunyuanOCR).", hunyuan(Fields)),
		rule("charts", "A chart as a flowchart of Mermaid, or a list or a table of Markdown (HunyuanOCR).", hunyuan(Charts)),
		rule("teds", "TEDS of the first table of HTML (PubTabNet).", TEDS{}.Rule),
		rule("teds_structure", "TEDS of the first table without the texts of its cells (PubTabNet).", TEDS{Structure: true}.Rule),
		form("think_answer", "<think>...</think><answer>...</answer> and nothing else.", ThinkAnswer),
		form("think_boxed", "<think>...</think>, then \\boxed{}.", ThinkBoxed),
		form("think_box", "<think>...</think> and an answer with four numbers.", ThinkBox),
		form("thinks", "It begins with <think>, once, and ends it (TRL).", Thinks),
		form("steps", "StepRVR: image, rationales, steps numbered in order, and the final answer last (R1-VL).", Reasoned),
		form("searched", "A search tag and an answer tag (VRAG).", Searched),
	}
}

// Find is a rule, or a form, by its name; "" is the first of its kind,
// and "within:2" a number within 2 % of the true one.
func Find(name string, form bool) (Named, bool) {
	if share, ok := within(name); ok && !form {
		return Named{Name: name, New: Rule(Relaxed{share}.Rule).Reward}, true
	}
	for _, r := range All() {
		if r.Form == form && (name == "" || r.Name == name) {
			return r, true
		}
	}
	return Named{}, false
}

// Names are those of a kind.
func Names(form bool) (names []string) {
	for _, r := range All() {
		if r.Form == form {
			names = append(names, r.Name)
		}
	}
	return names
}

// check refuses a rule's, or a form's, name that there is not; of is the reward.
func check(key, rule, of string, form bool, report rewards.Report) {
	if _, ok := Find(rule, form); ok || rule == "" {
		return
	}
	hint := "it is one of " + strings.Join(Names(form), ", ")
	if near := config.Near(rule, Names(form)); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	report(key, fmt.Sprintf("no rule of %s is called %q", of, rule), hint)
}

// CheckRule refuses a rule's name that there is not; of is the reward that has it.
func CheckRule(key, rule, of string, report rewards.Report) { check(key, rule, of, false, report) }

// named is the reward of a rule's, or a form's, name.
func named(name string, form bool) (rewards.Reward, error) {
	rule, ok := Find(name, form)
	if !ok {
		return nil, fmt.Errorf("no rule is called %q", name)
	}
	return rule.New(), nil
}

// RuleKey is a rule, or a form, by its name.
type RuleKey struct {
	Rule string `toml:"rule" doc:"of accuracy, tools, format and length: darkroom list rules; empty: the first"`
}

// replies is a kind that judges replies, without options.
func replies(k rewards.Kind, r rewards.Reward) rewards.Kind {
	k.Judges, k.Traits, k.Open = rewards.Replies, rewards.Rule, rewards.Plain(r)
	return k
}
