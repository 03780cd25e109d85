package judges

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
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

// Every table changes its reward's score.
func TestRewardOptions(t *testing.T) {
	word := scenes.NewWord("CAT", "red", "white")
	written := rewards.Item{Prompt: `the word "CA" in red on white`, Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: word.Draw(nil)}}
	two := scenes.NewCount(2, "red", "circle", "white")
	one := rewards.Item{Prompt: scenes.NewCount(1, "red", "circle", "white").Prompt, Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: two.Draw(nil)}}
	boxed := rewards.Item{Meta: rewards.Meta{"answer": json.RawMessage(`"12"`)}, Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: `\boxed{12} or so`}}}}
	again := rewards.Item{Meta: rewards.Meta{"answer": json.RawMessage(`"no"`)},
		Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: strings.Repeat("and so <answer>no, no</answer> ", 4)}}, Tokens: make([]int, 1500)}}
	letter := rewards.Item{Meta: rewards.Meta{"answer": json.RawMessage(`"B"`)},
		Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "<think>so</think><answer>B</answer>"}}}}
	for _, c := range []struct {
		reward, set string
		item        rewards.Item
	}{
		{"ocr", "ocr.formula=strict", written},
		{"layout", "layout.divide_by=want", one},
		{"layout", "layout.score=giou", one},
		{"layout", "layout.score=diou", one},
		{"layout", "layout.score=ciou", one},
		{"jpeg", "jpeg.form=compressibility", one},
		{"jpeg", "jpeg.form=flow_grpo", one},
		{"accuracy", "rule=boxed", boxed},
		{"accuracy", "rule=cer", boxed},
		{"repetition", "repetition.n=2", again},
		{"repetition", "repetition.of=tokens", again},
		{"repetition", "repetition.penalty=-2", again},
		{"length", "length.limit=8", again},
		{"length", "length.wrong=[-1, -1]", again},
		{"length", "length.stop=true", again},
		{"length", "rule=contained", again},
		{"mini_o3", "mini_o3.form=3", letter},
		{"mini_o3", "mini_o3.right=3", letter},
		{"format", "rule=thinks", rewards.Item{Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "<think>x</think>y"}}}}},
	} {
		plain := opened(t, c.reward).Judge(t.Context(), []rewards.Item{c.item})[0]
		other := opened(t, c.reward, c.set).Judge(t.Context(), []rewards.Item{c.item})[0]
		if plain.Missing != nil || other.Missing != nil || plain.Value == other.Value {
			t.Errorf("%s: %v and with %s %v (%v, %v)", c.reward, plain.Value, c.set, other.Value, plain.Missing, other.Missing)
		}
	}
}

// A judge's settings reach the server, and comparing forms compare.
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

// Judges of replies ask about the answer of the last turn, and read the form's reply.
func TestJudgesOfReplies(t *testing.T) {
	said, questions := "", []string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		questions = append(questions, string(body))
		reply, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": said}}}})
		_, _ = w.Write(reply)
	}))
	defer s.Close()
	item := rewards.Item{Prompt: "Which letter?", Meta: rewards.Meta{"answer": json.RawMessage(`"R"`)},
		Transcript: &rewards.Transcript{Turns: []rewards.Turn{{Text: "<think>so</think><answer>it is Q</answer>"}}}}
	for _, c := range []struct {
		sets  []string
		right string
		want  float64
	}{
		{[]string{"judge.form=deepeyes_visual"}, "Judgement: 1", 0.8},
		{[]string{"judge.form=deepeyes_reasoning"}, "TRUE", 0.8},
		{[]string{"judge.form=vrag"}, "<judge>True</judge>", 1},
		{[]string{"judge.form=question", `judge.question="{answer}, {prompt}, {truth}"`, "judge.read=score"}, "<Score>3</Score>", 0.6},
	} {
		said, questions = c.right, nil
		got := opened(t, "judge", append(c.sets, "judge.model=x", "url="+s.URL)...).Judge(t.Context(), []rewards.Item{item})[0]
		if got.Missing != nil || got.Value != c.want || len(questions) != 1 || !strings.Contains(questions[0], "it is Q") || !strings.Contains(questions[0], "Which letter?") {
			t.Errorf("%s: %+v, want %v; asked %q", c.sets, got, c.want, questions)
		}
		r, err := experiment.ParseReward("judge", c.sets)
		if err != nil || !slices.Contains(r.Judges(), "replies") {
			t.Errorf("%s judges %v, %v", c.sets, r.Judges(), err)
		}
	}
	if r, err := experiment.ParseReward("judge", []string{"judge.form=unified"}); err != nil || slices.Contains(r.Judges(), "replies") {
		t.Errorf("unified judges %v, %v", r.Judges(), err)
	}
}

// GenEval and layout ask a detector for the prompt's labels.
func TestDetectors(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = string(body)
		_, _ = io.WriteString(w, `{"detections": [{"label": "dog", "color": "red", "box": [0, 0, 10, 20], "score": 0.95}]}`)
	}))
	defer s.Close()
	item := rewards.Item{Image: vision.New(32, 32), Meta: rewards.Meta{
		"geneval": json.RawMessage(`{"include": [{"class": "dog", "count": 1, "color": "red"}, {"class": "cat", "count": 1}]}`),
		"boxes":   json.RawMessage(`[{"label": "dog", "box": [0, 0, 10, 20]}, {"label": "cat", "box": [0, 0, 5, 5]}]`)}}
	for _, c := range []struct {
		name string
		sets []string
		want float64
	}{
		{"geneval", nil, 2. / 3},
		{"geneval", []string{"geneval.value=strict"}, 0},
		{"geneval", []string{"geneval.threshold=0.99"}, 0},
		{"layout", nil, 0.5},
		{"layout", []string{"detector.box=xywh"}, 0.5},
		{"layout", []string{"detector.box=cxcywh"}, 1. / 14},
		{"layout", []string{"detector.least=0.99"}, 0},
	} {
		got := opened(t, c.name, append(c.sets, "url="+s.URL)...).Judge(t.Context(), []rewards.Item{item})[0]
		if got.Missing != nil || math.Abs(got.Value-c.want) > 1e-9 || !strings.Contains(asked, `["dog","cat"]`) {
			t.Errorf("%s %s: %+v, want %v; asked %.80s", c.name, c.sets, got, c.want, asked)
		}
	}
}

// A folder of CLIP's names the colours that the detector leaves out.
func TestGenEvalColours(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"detections": [{"label": "circle", "box": [0, 0, 32, 32], "score": 0.95}]}`)
	}))
	defer s.Close()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	r, err := experiment.ParseReward("geneval", []string{"url=" + s.URL, "path=embed:tiny-clip"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Open(r, Bench{Device: func() (*features.Device, error) { return features.On(pool, features.F32), nil }})
	if err != nil {
		t.Fatal(err)
	}
	if o.Network || o.Outside { // a server's boxes do not follow from the picture, and a worker's are not compared with others
		t.Errorf("a server's boxes and a network's colours are shared out: a network %v, outside %v", o.Network, o.Outside)
	}
	right := 0.0
	for _, colour := range neural.ColorNames() {
		item := rewards.Item{Image: vision.New(32, 32), Meta: rewards.Meta{"geneval": json.RawMessage(`{"include": [{"class": "circle", "count": 1, "color": "` + colour + `"}]}`)}}
		got := o.Judge(t.Context(), []rewards.Item{item})[0]
		if got.Missing != nil {
			t.Fatalf("%s: %v", colour, got.Missing)
		}
		right += got.Parts["strict"]
	}
	if right != 1 {
		t.Errorf("%v colours at once", right)
	}
	if err := o.Close(); err != nil || pool.Stats().Live != 0 {
		t.Errorf("%v, %d pieces of memory are left", err, pool.Stats().Live)
	}
}
