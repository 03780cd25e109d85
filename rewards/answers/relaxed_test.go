package answers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
)

// TestRelaxed: ChartQA's rule, by its share.
func TestRelaxed(t *testing.T) {
	for _, c := range []struct {
		rule, reply, truth string
		want               float64
	}{
		{"relaxed", "42.5", "44", 1}, {"relaxed", "41.7", "44", 0}, {"relaxed", "46.19", "44", 1}, {"relaxed", "46.3", "44", 0},
		{"relaxed", "I see it. <answer>42.5</answer>", "44", 1}, {"relaxed", "-42.5", "44", 0}, {"relaxed", "0", "0", 1}, {"relaxed", "0.01", "0", 0},
		{"relaxed", "43%", "44%", 1}, {"relaxed", "0.43", "44%", 1}, {"relaxed", "Blue", "blue ", 1}, {"relaxed", "green", "blue", 0}, {"relaxed", "1e9", "nan", 0},
		{"within:1", "42.5", "44", 0}, {"within:1", "43.9", "44", 1}, {"within:0", "44.0", "44", 1}, {"within:0", "44.1", "44", 0},
	} {
		rule, ok := Find(c.rule, false)
		if !ok {
			t.Fatalf("no rule %q", c.rule)
		}
		raw, _ := json.Marshal(c.truth)
		s, err := rule.New().Score(t.Context(), rewards.Item{Meta: rewards.Meta{"answer": raw}, Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: c.reply}}}})
		if err != nil || s.Value != c.want {
			t.Errorf("%s of %q, truth %q: %v, %v; want %v", c.rule, c.reply, c.truth, s.Value, err, c.want)
		}
	}
	for _, name := range []string{"within:", "within:x", "within:-1", "within:101", "within"} {
		if _, ok := Find(name, false); ok {
			t.Errorf("there is a rule %q", name)
		}
	}
}

// TestDomains: each domain has its rule, and one without is missing, or the other rule's.
func TestDomains(t *testing.T) {
	d := Domains{Rules: map[string]rewards.Reward{"chart": Rule(Relaxed{0.05}.Rule).Reward(), "count": Rule(Relative{Exact: true}.Rule).Reward()}}
	item := func(domain string) rewards.Item {
		m := rewards.Meta{"answer": []byte(`"44"`)}
		if domain != "" {
			m["domain"] = []byte(`"` + domain + `"`)
		}
		return rewards.Item{Meta: m, Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "43"}}}}
	}
	for domain, want := range map[string]float64{"chart": 1, "count": 0} {
		if s, err := d.Score(t.Context(), item(domain)); err != nil || s.Value != want || s.Evidence[len(s.Evidence)-1].Text != domain {
			t.Errorf("%s: %+v, %v", domain, s, err)
		}
	}
	for domain, says := range map[string]string{"maps": `the domain "maps"; there are chart, count`, "": "no meta.domain"} {
		if _, err := d.Score(t.Context(), item(domain)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", domain, err, says)
		}
	}
	d.Other = Rule(Relaxed{0.05}.Rule).Reward()
	if s, err := d.Score(t.Context(), item("maps")); err != nil || s.Value != 1 {
		t.Errorf("another domain: %v, %v", s, err)
	}
}

// TestLanguage: how much of a reply is in the language asked for; texts that tell nothing cost nothing.
func TestLanguage(t *testing.T) {
	const english, german = "The red card lies in the upper left corner of the table.", "Die rote Karte liegt in der linken oberen Ecke des Tisches."
	for _, c := range []struct {
		prompt, language string
		turns            []string
		low, high        float64
	}{
		{english, "", []string{"I will look at the card first, and then say which digit it shows."}, 1, 1},
		{english, "", []string{german}, 0, 0},
		{english, "", []string{english + "\n" + german}, 0.4, 0.6},
		{english, "", []string{english, german}, 0.4, 0.6},
		{english, "", []string{"这张红色的卡片在桌子的左上角，上面的数字是七。"}, 0, 0},
		{"红色的卡片上写着哪个数字？请仔细看图片。", "", []string{"这张红色的卡片在桌子的左上角，上面的数字是七。"}, 1, 1},
		{"Какая цифра написана на красной карточке?", "", []string{"На красной карточке написана цифра семь."}, 1, 1},
		{english, "", []string{"I look at the picture 我看到一张红色的卡片 in front of the house, 所以上面的数字是七 and so on."}, 0.3, 0.7},
		{english, "", []string{english + " 这张红色的卡片在桌子的左上角。上面的数字是七。"}, 0.3, 0.7},
		{"红色的卡片上写着哪个数字？请仔细看图片。", "", []string{"这张红色的卡片在桌子的左上角，GPU 上面的数字是七。"}, 1, 1},
		{"カードに書かれている数字は何ですか。", "", []string{"赤いカードは机の左上の隅にあります。数字は七です。"}, 1, 1},
		{english, "de", []string{german}, 1, 1},
		{english, "deu", []string{english}, 0, 0},
		{english, "", []string{"<answer>7</answer>"}, 1, 1},
		{"7?", "", []string{german}, 1, 1},
		{german, "", []string{`<tool_call>{"name": "zoom", "arguments": {"bbox_2d": [1, 2, 3, 4], "label": "the card that is asked for"}}</tool_call>`, german}, 1, 1},
	} {
		item := rewards.Item{Prompt: c.prompt, Meta: rewards.Meta{}, Transcript: &rewards.Transcript{}}
		for _, text := range c.turns {
			item.Transcript.Turns = append(item.Transcript.Turns, rewards.Turn{Text: text})
		}
		if c.language != "" {
			item.Meta["language"] = []byte(`"` + c.language + `"`)
		}
		s, err := Language{}.Score(t.Context(), item)
		if err != nil || s.Value < c.low || s.Value > c.high || len(s.Evidence) == 0 {
			t.Errorf("%q, %q: %+v, %v; want %v to %v", c.prompt, c.turns, s, err, c.low, c.high)
		}
	}
	wrong := rewards.Item{Prompt: english, Meta: rewards.Meta{"language": []byte(`"xx"`)}, Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: english}}}}
	if _, err := (Language{}).Score(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), `"xx"`) {
		t.Errorf("a language that there is not: %v", err)
	}
}
