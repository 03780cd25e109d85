package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

func TestRewardOptionMistakes(t *testing.T) {
	for set, want := range map[string]string{
		"ocr.formula=strikt":     `did you mean "strict"`,
		"ocr.formla=strict":      `did you mean "formula"`,
		"ocr.language=deu":       `write path = "tesseract"`,
		"judge.form=think":       `"judge" is not of reward "ocr"`,
		"rule=boxed":             `"rule" is not of reward "ocr"`,
		"scaling=logit":          `"scaling" is not of reward "ocr"`,
		"url='http://a'":         `"url" is not of reward "ocr"`,
		"name=layout":            "a reward is named by --reward",
		"ocr=strict":             "must be a table",
		"ocr.interval=0":         "ocr.interval",
		"weight":                 "an override is KEY=VALUE",
		"ocr.page=99":            "ocr.page",
		"timeout=0":              "timeout",
		"motion.per_second=true": "must be a number",
	} {
		if _, err := ParseReward("ocr", []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	if _, err := ParseReward("clip", []string{"scaling=cosin"}); err == nil || !strings.Contains(err.Error(), `no scaling is called "cosin"`) {
		t.Error(err)
	}
	if _, err := ParseReward("judge", []string{"judge.rounds=4"}); err == nil || !strings.Contains(err.Error(), "holds no tournament") {
		t.Errorf("rounds of marks: %v", err)
	}
	if _, err := ParseReward("judge", []string{"judge.both_orders=true"}); err == nil || !strings.Contains(err.Error(), "there is no order") {
		t.Error(err)
	}
}

// Mistakes within [[reward]] have their place.
func TestRewardTables(t *testing.T) {
	base := "[run]\nname = \"a\"\niterations = 1\n[model]\npath = \"embed:tiny-sd3\"\n[rollout]\nprompts = \"embed:scenes\"\n"
	e, err := Parse("a.toml", []byte(base+"[[reward]]\nname = \"ocr\"\npath = \"no-such-tesseract\"\nocr = { formula = \"strict\", page = 7 }\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := e.Rewards[0].OCR; o == nil || o.Formula != "strict" || o.Interval != 4 || o.Page != 7 || o.Language != "eng" {
		t.Errorf("%+v", o)
	}
	if !slices.ContainsFunc(e.outside(), func(w string) bool {
		return strings.Contains(w, "no-such-tesseract") && strings.Contains(w, "tesseract-ocr")
	}) {
		t.Errorf("%q", e.outside())
	}
	var written strings.Builder
	if err := e.Write(&written); err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.toml", []byte(written.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	if *again.Rewards[0].OCR != *e.Rewards[0].OCR || again.Rewards[0].Judge != nil {
		t.Errorf("%+v", again.Rewards[0])
	}
	for text, want := range map[string]string{
		"[[reward]]\nname = \"jpeg\"\nocr = { formula = \"strict\" }\n":              `"ocr" is not of reward "jpeg"`,
		"[[reward]]\nname = \"accuracy\"\nrule = \"gsm8\"\n":                         `did you mean "gsm8k"`,
		"[[reward]]\nname = \"judge\"\nurl = \"x\"\njudge = { form = \"thinks\" }\n": `"reward[0].judge.form" must be one of`,
	} {
		if _, err := Parse("a.toml", []byte(base+text), nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a.toml:1") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestJudgesOf: a judge's form decides its input. Those of edits judge pictures, and a run of pictures takes them.
func TestJudgesOf(t *testing.T) {
	for form, want := range map[string][]string{
		"flow_grpo": {"pictures", "clips"}, "editscore": {"pictures", "clips"}, "edit_r1": {"pictures", "clips"},
		"vrag": {"replies"}, "deepeyes_math": {"replies"}, "hunyuan_translation": {"replies"}, "question": {"pictures", "clips", "replies"},
	} {
		r := Reward{Name: "judge"}
		r.Judge = &judge.Options{Form: form}
		if got := r.Judges(); !slices.Equal(got, want) {
			t.Errorf("%s judges %v, not %v", form, got, want)
		}
	}
}

// TestWeightsHavePaths: the path of a reward's weights may be set.
func TestWeightsHavePaths(t *testing.T) {
	for _, k := range kinds.All() {
		if !k.Is(rewards.Weights) {
			continue
		}
		text := fmt.Sprintf("[run]\nname = \"x\"\niterations = 1\n[model]\npath = \"m\"\n[sampler]\nframes = 5\n[rollout]\nprompts = \"p.txt\"\n[[reward]]\nname = %q\npath = \"w.onnx\"\n", k.Name)
		if _, err := Parse("x.toml", []byte(text), nil); err != nil && strings.Contains(err.Error(), "reward[0].path") {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}

// TestTokensKL: a weight alone is enough for the distance from the reference in an episode, and of pictures as before.
func TestTokensKL(t *testing.T) {
	if e := parse(t, least, "episode={turns=2}", "reward=[{name='accuracy'}]", "loss.kl.weight=0.01"); e.Loss.KL.Estimator != "k3" {
		t.Errorf("tokens: %s", e.Loss.KL.Estimator)
	}
	if e := parse(t, least, "loss.kl.weight=0.01"); e.Loss.KL.Estimator != "mean" {
		t.Errorf("pictures: %s", e.Loss.KL.Estimator)
	}
	for _, k := range advantage.Rules() {
		if _, err := Parse("a.toml", []byte(least), []string{"episode={turns=2}", "reward=[{name='accuracy'}]", "advantage.estimator=" + k.Name}); err != nil {
			if _, err := Parse("a.toml", []byte(least), []string{"advantage.estimator=" + k.Name, "sampler.solver=dance", "sampler.tree={splits=[0]}", "rollout.group=2"}); err != nil {
				t.Errorf("estimator %s is listed, and refused everywhere: %v", k.Name, err)
			}
		}
	}
}
