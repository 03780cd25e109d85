package judges

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

func opened(t *testing.T, name string, sets ...string) Opened {
	t.Helper()
	r, err := experiment.ParseReward(name, sets)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Open(r, Bench{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Every table changes what its reward says.
func TestRewardOptions(t *testing.T) {
	word := scenes.NewWord("CAT", "red", "white")
	written := rewards.Item{Prompt: `the word "CA" in red on white`, Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: word.Draw(scenes.Canonical)}}
	two := scenes.NewCount(2, "red", "circle", "white")
	one := rewards.Item{Prompt: scenes.NewCount(1, "red", "circle", "white").Prompt, Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: two.Draw(scenes.Canonical)}}
	boxed := rewards.Item{Meta: rewards.Meta{"answer": json.RawMessage(`"12"`)}, Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: `\boxed{12} or so`}}}}
	for _, c := range []struct {
		reward, set string
		item        rewards.Item
	}{
		{"ocr", "ocr.formula=strict", written},
		{"layout", "layout.divide_by=want", one},
		{"layout", "layout.score=giou", one},
		{"accuracy", "rule=boxed", boxed},
		{"format", "rule=thinks", rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "<think>x</think>y"}}}}},
	} {
		plain := opened(t, c.reward).Judge(t.Context(), []rewards.Item{c.item})[0]
		other := opened(t, c.reward, c.set).Judge(t.Context(), []rewards.Item{c.item})[0]
		if plain.Missing != nil || other.Missing != nil || plain.Value == other.Value {
			t.Errorf("%s: %v and with %s %v (%v, %v)", c.reward, plain.Value, c.set, other.Value, plain.Missing, other.Missing)
		}
	}
}

// What is set of a judge reaches the server, and comparing forms compare.
func TestJudgeOptions(t *testing.T) {
	var asked []map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked = append(asked, body)
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "<answer>Image 1 is better</answer> Final Score: 4"}}]}`)
	}))
	defer s.Close()
	items := []rewards.Item{{Prompt: "p", Image: vision.New(8, 8)}, {Prompt: "p", Image: vision.New(8, 8)}}
	j := opened(t, "judge", "url="+s.URL, "judge.form=think", "judge.model=mine", "judge.temperature=0.5", "judge.max_tokens=77", "judge.pictures=png", "judge.both_orders=true", "judge.at_once=1")
	got := j.Judge(t.Context(), items)
	if len(asked) != 2 || asked[0]["model"] != "mine" || asked[0]["temperature"] != 0.5 || asked[0]["max_tokens"] != 77.0 || asked[0]["do_sample"] != nil {
		t.Errorf("%v", asked)
	}
	if text, _ := json.Marshal(asked[0]["messages"]); strings.Count(string(text), "data:image/png") != 2 {
		t.Errorf("%.200s", text)
	}
	if got[0].Missing != nil || got[0].Value != 0.5 || got[1].Value != 0.5 {
		t.Errorf("a judge that always likes the first, in both orders: %+v", got)
	}
	asked = nil
	j = opened(t, "judge", "url="+s.URL, "judge.form=think")
	if got = j.Judge(t.Context(), items); len(asked) != 1 || got[0].Value != 1 || got[1].Value != 0 || asked[0]["do_sample"] != false {
		t.Errorf("%+v, %v", got, asked)
	}
	asked = nil
	j = opened(t, "judge", "url="+s.URL)
	if got = j.Judge(t.Context(), items[:1]); got[0].Value != 0.8 || asked[0]["model"] != "UnifiedReward-7b-v1.5" {
		t.Errorf("%+v", got)
	}
}
