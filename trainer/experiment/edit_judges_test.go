package experiment

import (
	"slices"
	"testing"
)

// TestJudgesOf: a judge's form decides what it judges. Those of edits judge pictures, and a run of pictures takes them.
func TestJudgesOf(t *testing.T) {
	for form, want := range map[string][]string{
		"flow_grpo": {"pictures", "clips"}, "editscore": {"pictures", "clips"}, "edit_r1": {"pictures", "clips"},
		"vrag": {"replies"}, "deepeyes_math": {"replies"}, "question": {"pictures", "clips", "replies"},
	} {
		if got := judging(form).Judges(); !slices.Equal(got, want) {
			t.Errorf("%s judges %v, not %v", form, got, want)
		}
	}
}

// judging is a judge by a form.
func judging(form string) (r Reward) {
	r.Name, r.Judge = "judge", &JudgeOptions{Form: form}
	return r
}
