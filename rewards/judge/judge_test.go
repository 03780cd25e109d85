package judge

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/call"
)

func TestAsk(t *testing.T) {
	for _, name := range Templates() {
		text, err := FillTemplate(name, Blanks{Prompt: "a {truth} cup", Truth: "T", Answer: "A", Requirement: "R"})
		if err != nil || len(text) < 100 || strings.Contains(text, "{prompt}") || strings.Contains(text, "{answer}") {
			t.Errorf("%s: %v, %.80q", name, err, text)
		}
		if strings.Contains(text, "cup") && !strings.Contains(text, "a {truth} cup") {
			t.Errorf("%s: the caption's own braces were filled in", name)
		}
	}
	for _, name := range []string{"", "none", "../prompts/flow_grpo_score"} {
		if text, err := FillTemplate(name, Blanks{}); err == nil {
			t.Errorf("%q: %.40q", name, text)
		}
	}
}

func TestPoints(t *testing.T) {
	const none = -1
	for reply, want := range map[string][4]float64{
		"Final Score: 2.33":                       {2.33, 2.33, none, none},
		"Final Score: 0":                          {none, 0, none, none},
		"Final Score: 45":                         {4, 4, none, none},
		"Final Score: 2 Final Score: 4":           {2, 2, none, none},
		"**Final Score:** 4":                      {none, none, none, none},
		"<Score>12</Score>":                       {none, none, none, 2.4},
		"<Score>3.5</Score>":                      {none, none, none, none},
		"Alignment Score (1-5): 3.7 Final Score:": {none, none, 3.7, none},
		"": {none, none, none, none},
	} {
		for i, read := range []func(string) (float64, bool){FinalFrom1, Final, Alignment, Tag} {
			got, ok := read(reply)
			if !ok {
				got = none
			}
			if got != want[i] {
				t.Errorf("%q, reading %d: %v, want %v", reply, i, got, want[i])
			}
		}
	}
}

func TestEditMarks(t *testing.T) {
	for reply, want := range map[string][2]float64{
		`{"score": [20, 18]}`: {20, 18}, "```json\n{\"score\": [\"25\", 0, 7]}\n```": {25, 0}, `"{\"score\": [9, 8]}"`: {9, 8}, `so {"a": {}, "score": [true, -1]} !`: {1, -1},
	} {
		if got, ok := EditMarks(reply); !ok || got != want {
			t.Errorf("%s: %v, %v", reply, got, ok)
		}
	}
	for _, reply := range []string{"", "[20, 18]", `{"score": [7]}`, `{"score": "20"}`, `{"score": [null, 3]}`, `{"score": [1, 2]} and {"score": [3, 4]}`, `{"Score": [1, 2]}`, "}{"} {
		if got, ok := EditMarks(reply); ok {
			t.Errorf("%s: %v", reply, got)
		}
	}
}

func TestWinRates(t *testing.T) {
	read := Thinking("Image 1 is better", "Image 2 is better")
	all := []Comparison{{0, 1, "<answer>Image 1 is better</answer>", false}, {0, 2, "<answer>Image 1 is better</answer>", false}, {1, 2, "<answer>both</answer>", false}}
	rates, err := WinRates(3, all, read)
	if err != nil || rates[0] != 1 || rates[1] != 0.25 || rates[2] != 0.25 {
		t.Error(rates, err)
	}
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	if sum != 1.5 {
		t.Errorf("the mean is %v", sum/3)
	}
	// Who was not asked about has no point and no comparison.
	all[1].Missing = true
	if rates, _ := WinRates(3, all, read); rates[0] != 1 || rates[2] != 0.5 {
		t.Error(rates)
	}
	for _, c := range []Comparison{{First: 0, Second: 3}, {First: -1, Second: 0}, {First: 1, Second: 1}} {
		if rates, err := WinRates(3, []Comparison{c}, read); err == nil {
			t.Errorf("%v: %v", c, rates)
		}
	}
	edit := Editing("Edited image 1 is better", "Edited image 2 is better")
	for reply, want := range map[string][2]int{
		"Edited image 2 is better":                                 {0, 2},
		"<ANSWER>edited IMAGE 1 is better</ANSWER>":                {0, 1},
		"edited image 2 is better <answer>they are equal</answer>": {0, 2},
		"<answer>Image 1 is better</answer>":                       {1, 0},
		"Image 1 is better":                                        {0, 0},
		"":                                                         {0, 0},
		"<answer></answer> edited image 1 is better":               {0, 0},
		"<answer>Image 1 is better. Image 2 is better</answer> or not?": {1, 0},
	} {
		if got := [2]int{read(reply), edit(reply)}; got != want {
			t.Errorf("%q: %v, want %v", reply, got, want)
		}
	}
}

func TestFlex(t *testing.T) {
	reply := `{"winner": "Image 1", "categories": [{"name": "Style", "cat_winner": "Image 1"}, {"name": "Words", "cat_winner": "Image 2"}]}`
	pair := []Comparison{{First: 0, Second: 1, Reply: "```json\n" + reply + "\n```"}}
	for _, c := range []struct {
		f    Flex
		want float64
	}{
		{Flex{Overall: 1}, 1},
		{Flex{Overall: 1, Dimensions: 1}, 0.75},
		{Flex{Overall: 1, Dimensions: 1, Categories: []float64{1, 0}}, 1},
		{Flex{Overall: 1, Dimensions: 1, Categories: []float64{0, 1}}, 0.5},
		{Flex{Overall: 1, Dimensions: 3, Categories: []float64{0, 1}}, 0.25},
		{Flex{Overall: 1, Dimensions: 3, Categories: []float64{0, 1}, UpstreamSlip: true}, 0.5},
	} {
		r, err := c.f.Rates(2, pair)
		if err != nil || r.Rewards[0] != c.want || !r.Judged[0] {
			t.Errorf("%+v: %+v, want %v, %v", c.f, r, c.want, err)
		}
	}
	// One category that agrees with the winner changes nothing.
	agrees := []Comparison{{First: 0, Second: 1, Reply: `{"winner": "Image 2", "categories": [{"name": "Style", "cat_winner": "image 2"}]}`}}
	if r, _ := (Flex{Overall: 1, Dimensions: 1}).Rates(2, agrees); r.Rewards[0] != 0 || r.Rewards[1] != 1 {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]int{"Image 1": 1, "image2 wins": 2, "Image 12": 0, "Images 1": 0, "Image 1 and Image 2": 0, "video\n1": 1, "": 0, "image 1st": 0, "the Image 2.": 2} {
		if winnerOf(text) != want {
			t.Errorf("%q: %d", text, winnerOf(text))
		}
	}
}

// FuzzReplies: whatever a judge says is read without panic.
func FuzzReplies(f *testing.F) {
	for _, s := range []string{`{"winner": "Image 1", "categories": [1, {}, {"name": 3}]}`, `{"score": [1, 2]}`, "Final Score: 3", `{"choices": [{"message": {"content": "x"}}]}`, "[", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		EditMarks(reply)
		Marks(reply)
		FinalFrom1(reply)
		if _, err := (Flex{Overall: 1, Dimensions: 1}).Rates(2, []Comparison{{First: 0, Second: 1, Reply: reply}}); err != nil {
			t.Error(err)
		}
		Editing("a", "b")(reply)
		ReplyText([]byte(reply))
	})
}

// TestJudgeFaults: a judge that is slow, dies, lies or cannot be read scores nothing: the episode is missing with its
// reason, and the one beside it, which is judged, keeps its score.
func TestJudgeFaults(t *testing.T) {
	says := func(text string) string { return `{"choices": [{"message": {"content": "` + text + `"}}]}` }
	for _, c := range []struct {
		name, reply, why string
		asked            int
	}{
		{"slow", "", "no answer in time", 2},
		{"dies", "", "failed 2 times", 2},
		{"answers 500", "", "500", 2},
		{"a page in place of a reply", "<html>all is well</html>", "no chat completion", 1},
		{"no message", `{"choices": []}`, "holds no message", 1},
		{"an error in place of a message", `{"error": "out of memory"}`, "out of memory", 1},
		{"another's words", says("I would rather not say."), "cannot be read, and the next one is the same", 2},
		{"a mark that is none", says("Judgement: 7"), "cannot be read, and the next one is the same", 2},
		{"nothing", says(""), "cannot be read, 3 times", 3},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "the good one") {
				_, _ = io.WriteString(w, says("Judgement: 1"))
				return
			}
			switch asked++; c.name {
			case "slow":
				<-r.Context().Done()
			case "dies":
				if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
					c.Close()
				}
			case "answers 500":
				w.WriteHeader(http.StatusInternalServerError)
			default:
				_, _ = io.WriteString(w, c.reply)
			}
		}))
		q := Question{Text: "{answer} {truth}", Read: "one", Tries: 3, Model: Chat{URL: server.URL, Caller: call.NewCaller(call.Policy{Timeout: 300 * time.Millisecond, Tries: 2}, nil)}}
		var items []rewards.Item
		for _, text := range []string{"the good one", "the other one"} {
			items = append(items, rewards.Item{Meta: rewards.Meta{"answer": []byte(`"7"`)}, Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: text}}}})
		}
		got := rewards.Each(q, 1).Judge(t.Context(), items)
		server.Close()
		if got[0].Missing != nil || got[0].Value != 1 {
			t.Errorf("%s: the one beside it: %+v", c.name, got[0])
		}
		if err := got[1].Missing; err == nil || !strings.Contains(err.Error(), c.why) || asked != c.asked {
			t.Errorf("%s: %+v after %d questions, want %q after %d", c.name, got[1], asked, c.why, c.asked)
		}
	}
}
