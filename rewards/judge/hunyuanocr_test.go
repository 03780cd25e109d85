package judge

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
)

// TestTranslationMark: marks of upstream's function, and the rewards that it makes of them; -1 has no score.
func TestTranslationMark(t *testing.T) {
	for _, c := range []struct {
		judgement   string
		mark, value float64
	}{
		{"Reasoning: fine\nFinal Score: 3.575", 3.575, 0.6725000000000001},
		{"**最终得分**：　4.5", 4.5, 0.9},
		{"final_score : 2", 2.0, 0.2},
		{"FINAL  SCORE：0", 0.0, 0.0},
		{"最终评分: 1.25", 1.25, 0.125},
		{"综合得分：5", 5.0, 1.0},
		{"综合评分:5.0", 5.0, 1.0},
		{"总分: 3 of 5", 3.0, 0.5},
		{"score: 3.5/5", 3.5, 0.6499999999999999},
		{"score: 3.5", 3.5, 0.6499999999999999},
		{"Score: 4 / 5", 4.0, 0.8},
		{"最终得分：5.7\nscore: 3 / 5", 3.0, 0.5},
		{"Final Score: 5.9", -1, 0},
		{"```json\n{\"final_score\": \"3.25\"}\n```", 3.25, 0.575},
		{"```\n{\"score\": true}\n```", 1.0, 0.1},
		{"{\"评分过程\": \"x\", \"最终得分\": 2.5}", 2.5, 0.35},
		{"{\"score\": 7, \"评分\": 4}", 4.0, 0.8},
		{"{\"score\": null, \"总分\": [1]}", 1.0, 0.1},
		{"[3]", -1, 0},
		{"评分 如下 3.5。", 3.5, 0.6499999999999999},
		{"the score is 3.5.", -1, 0},
		{"score 12 and 2.25 and 6", 2.25, 0.275},
		{"score 3.55x", 3.55, 0.6649999999999999},
		{"score 2.5.1 then 1", 1.0, 0.1},
		{"score .4", -1, 0},
		{"score 5.5", -1, 0},
		{"a mark of 3", -1, 0},
		{"", -1, 0},
		{"score 4 " + strings.Repeat("x", 300), -1, 0},
		{"Final Score: 45", 4.0, 0.8},
		{"得分 2 ３", 2.0, 0.2},
		{"score 3.５", 3.5, 0.6499999999999999},
		{"Final Score: -1", 1.0, 0.1},
		{"ﬁnal Score: 4/5", 4.0, 0.8},
		{"so {\"a\": {\"评分过程\": 1, \"score\": 3}} end", 3.0, 0.5},
		{"```json\n{broken}\n``` ```json\n{\"score\": 1}\n```", 1.0, 0.1},
	} {
		value, mark, ok := readTranslation(c.judgement)
		if ok != (c.mark >= 0) || ok && (mark != c.mark || math.Abs(value-c.value) > 1e-15) {
			t.Errorf("%q: %v, %v, %v; want %v, %v", c.judgement, mark, value, ok, c.mark, c.value)
		}
	}
	for judgement, want := range map[string]float64{"Reasoning: so\n**Judgement: 1**": 1, "Judgement:0": 0, "Judgement: 01": 1, "Judgement: 2": -1, "1": -1, "Judgement: 2\nJudgement: 1": -1} {
		if value, _, ok := readVQA(judgement); ok != (want >= 0) || ok && value != want {
			t.Errorf("%q: %v, %v; want %v", judgement, value, ok, want)
		}
	}
}

// TestHunyuanOCR: the request that a server gets, upstream's words in place of missing ones, judgements that cannot be
// read, and replies that say nothing.
func TestHunyuanOCR(t *testing.T) {
	var asked []string
	judgement := "Final Score: 3.5"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		reply, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": judgement}}}})
		_, _ = w.Write(reply)
	}))
	defer server.Close()
	keys := judgeKeys{JudgeKey: JudgeKey{&Options{Form: "hunyuan_translation"}}}
	keys.URL = server.URL
	opened, err := keys.open(rewards.Bench{})
	if err != nil {
		t.Fatal(err)
	}
	item := func(reply string, meta rewards.Meta) rewards.Item {
		return rewards.Item{Prompt: "translate", Meta: meta, Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: reply}}}}
	}
	whole := rewards.Meta{"answer": []byte(`"Guten Tag"`), "source_lang_text": []byte(`"good day"`), "target_lang": []byte(`"German"`)}
	got := opened.Judge.Judge(t.Context(), []rewards.Item{item("Hallo", whole)})
	if got[0].Missing != nil || math.Abs(got[0].Value-0.65) > 1e-15 || got[0].Parts["mark"] != 3.5 {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{
		`"content":"You are a helpful and precise assistant for checking the consistency of answers.","role":"system"}`,
		`"model":"Qwen/Qwen3-30B-A3B","temperature":0.2,"top_k":10,"top_p":0.95`,
		`**Target language**: German\n**Source text**:\ngood day\n**Reference translation**:\nGuten Tag\n`,
		`translation\u003e:\nHallo\n`,
	} {
		if !strings.Contains(asked[0], want) {
			t.Errorf("%s is not in %s", want, asked[0])
		}
	}
	_ = opened.Judge.Judge(t.Context(), []rewards.Item{item("Servus", rewards.Meta{"answer": []byte(`"Guten Tag"`)})})
	if last := asked[len(asked)-1]; strings.Count(last, hunyuanMissing) != 2 {
		t.Error(last)
	}
	judgement = "no idea"
	for name, i := range map[string]rewards.Item{"unreadable": item("Hi", whole), "empty": item("", whole), "no truth": item("Hi", nil)} {
		if got := opened.Judge.Judge(t.Context(), []rewards.Item{i}); got[0].Missing == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
