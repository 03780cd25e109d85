package judges

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestRulesOfDomains: a file's rules reach the judges, and an unknown name is refused.
func TestRulesOfDomains(t *testing.T) {
	r, err := experiment.ParseReward("accuracy", []string{"rules.chart=relaxed", "rules.plot=within:1", "rule=same"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Open(r, Bench{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	var items []rewards.Item
	for _, domain := range []string{"chart", "plot", "other"} {
		items = append(items, rewards.Item{Meta: rewards.Meta{"answer": []byte(`"44"`), "domain": []byte(`"` + domain + `"`)},
			Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "<answer>42.5</answer>"}}}})
	}
	for i, s := range o.Judge(t.Context(), items) {
		if want := []float64{1, 0, 0}[i]; s.Missing != nil || s.Value != want {
			t.Errorf("item %d: %+v, want %v", i, s, want)
		}
	}
	for says, set := range map[string]string{`no rule of accuracy is called "relaxd"`: "rules.chart=relaxd", `no rule of accuracy is called "within:x"`: "rule=within:x"} {
		if _, err := experiment.ParseReward("accuracy", []string{set}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", set, err)
		}
	}
	for says, set := range map[string]string{`no rule of judge is called "relaxd"`: "judge.first=relaxd", "first and looks are of your own question": "judge.looks=true"} {
		form := "judge.form=vrag"
		if strings.HasPrefix(set, "judge.first") {
			form = "judge.form=question"
		}
		if _, err := experiment.ParseReward("judge", []string{form, "url=http://localhost:1", "judge.model=m", set}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", set, err)
		}
	}
}
