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
