package run

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

const judgedStages = `
[[stage]]
name = "imitate"
iterations = 1
[stage.loss]
objective = "sft"
[stage.rollout]
lessons = "LESSONS"
prompts_per_iteration = 4
group = 1
[[stage]]
name = "prefer"
iterations = 3
[stage.loss]
objective = "dpo"
kl = { reference = "stage" }
preference = { weight = 0.8, quality = 0.2, imitate = 1 }
[stage.rollout]
lessons = "PAIRS"
prompts_per_iteration = 3
group = 2
[stage.optim]
lr = 2e-3
updates = 1
[[stage]]
name = "good"
iterations = 2
[stage.loss]
objective = "kto"
kl = { reference = "stage" }
[stage.rollout]
lessons = "LABELS"
prompts_per_iteration = 3
group = 1
`

// judgedFiles are rows of pairs and rows with labels: a right digit about a table, and a wrong one.
func judgedFiles(t *testing.T) (pairs, labels string) {
	t.Helper()
	var of, one []string
	for i := range 4 {
		asked := fmt.Sprintf(`"prompt": [{"role": "user", "content": [{"type": "image", "image": "embed:cards/%d"}, {"type": "text", "text": "Which digit is on the red card?"}]}]`, 30000+i)
		of = append(of, fmt.Sprintf(`{%s, "chosen": "<answer>%d</answer>", "rejected": "I cannot say"}`, asked, i))
		one = append(one, fmt.Sprintf(`{%s, "completion": [{"role": "assistant", "content": "<answer>%d</answer>"}], "label": %v}`, asked, i, i%2 == 0))
	}
	return lessonFile(t, of...), lessonFile(t, one...)
}

// TestJudged: pairs of answers are learned from, and answers that are good or bad: each stage begins at its reference,
// and the better answers draw ahead. A run that is stopped in a stage leaves the bytes of one that was not.
func TestJudged(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	pairs, labels := judgedFiles(t)
	text := talking + strings.NewReplacer("LESSONS", taughtLessons(t), "PAIRS", pairs, "LABELS", labels).Replace(judgedStages)
	text = strings.Replace(text, `kl = { weight = 0.01, estimator = "k3" }`, "", 1)
	sets := []string{fewQuestions(t), speaker(t), "run.iterations=6", "evaluate.every=6"}
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	if r, err := train(t, parseText(t, text, sets...), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	lines := ledgerOf(t, whole)
	for i, l := range lines[1:] {
		u := l.Updates[0].Metrics
		if begins := i == 0 || i == 3; begins != (u["margin"] == 0 && u["chosen"] == 0 && u["rejected"] == 0) {
			t.Errorf("iteration %d, stage %s: margin %v, rewards %v and %v", l.Iteration, l.Stage, u["margin"], u["chosen"], u["rejected"])
		}
	}
	if a, b := lines[1].Updates[0].Metrics, lines[3].Updates[0].Metrics; !(b["margin"] > 0.1 && b["accuracy"] == 1 && b["nll"] < a["nll"]) {
		t.Errorf("pairs: from %v to %v", a, b)
	}
	want := contents(t, whole)
	parts := filepath.Join(dir, "parts")
	for k, stop := range []int{3, 5, -1} { // within the stage of pairs, whose mean goes on, and within that of labels
		if _, err := train(t, parseText(t, text, sets...), parts, k > 0, 1, stop); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "stopped among judged answers", want, contents(t, parts))
}

// TestJudgedRefused: rows that do not say which answer is better, or have another number of answers than is asked
// for, are refused with their place.
func TestJudgedRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	model, questions := speaker(t), fewQuestions(t)
	pairs, labels := judgedFiles(t)
	morePairs, moreLabels := judgedFiles(t)
	for says, files := range map[string][2]string{
		"lessons.jsonl:1: the row has 1 judged answers, and rollout.group is 2": {labels, moreLabels},
		"lessons.jsonl:1: the row has 2 judged answers, and rollout.group is 1": {pairs, morePairs},
		`lessons.jsonl:1: "chosen": an answer was expected`:                     {lessonFile(t, `{"prompt": "Hi"}`), labels},
		"is read as conversations and as judged answers":                        {taughtLessons(t), labels},
	} {
		lessons := taughtLessons(t)
		if strings.HasPrefix(says, "is read") {
			lessons = files[0]
		}
		text := strings.Replace(talking, `kl = { weight = 0.01, estimator = "k3" }`, "", 1) + strings.NewReplacer("LESSONS", lessons, "PAIRS", files[0], "LABELS", files[1]).Replace(judgedStages)
		e, err := experiment.Parse("small.toml", []byte(text), []string{questions, model, "run.iterations=6"})
		if err == nil {
			_, err = train(t, e, filepath.Join(t.TempDir(), "run"), false, 2, -1)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}
