package answers

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
)

func TestDeepEyes(t *testing.T) {
	seen := "<think>a</think>" + pictureStart + "<|vision_end|><think>b</think><answer>red</answer>"
	for _, c := range []struct {
		d    DeepEyes
		v    Judgement
		want float64
	}{
		{DeepEyesVisual(seen), Right, 2}, {DeepEyesVisual(seen), Wrong, 0}, {DeepEyesVisual(seen), Unclear, 0},
		{DeepEyesVisual("<answer>red</answer>"), Right, 0.8},
		{DeepEyesVisual("<think><answer>red</answer>"), Right, 0.6},
		{DeepEyesVisual("<answer>" + strings.Repeat("x", 1000) + "</answer>"), Right, -0.2},
		{DeepEyesReasoning("<answer> </answer>"), Right, -0.2},
	} {
		if got := c.d.Reward(c.v); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v, %v: %v, want %v", c.d, c.v, got, c.want)
		}
	}
	for reply, want := range map[string]Judgement{"1": Right, "0": Wrong, "Judgement: 10": Right, "Judgement: no": Unclear, "it is 1": Unclear} {
		if JudgedOne(reply) != want {
			t.Errorf("%q: %v", reply, JudgedOne(reply))
		}
	}
	for reply, want := range map[string]Judgement{"TRUE": Right, "true or false": Unclear, "false ## Equivalence Judgement\nTrue": Right, "": Unclear} {
		if JudgedTrue(reply) != want {
			t.Errorf("%q: %v", reply, JudgedTrue(reply))
		}
	}
}

func TestMiniO3(t *testing.T) {
	call, answer := "<think>a</think><grounding>{}</grounding>", "<think>b</think><answer>A</answer>"
	m := MiniO3{Right: 1, Form: 0.5, Tool: 0.25, Penalty: 0.1}
	for _, c := range []struct {
		turns []string
		want  MiniO3Judgement
	}{
		{[]string{answer}, MiniO3Judgement{1.5, true, true, 0}},
		{[]string{call, answer + "\n"}, MiniO3Judgement{0.9 + 0.5 + 0.25, true, true, 1}},
		{[]string{call + "x", answer}, MiniO3Judgement{0.9 + 0.25, true, false, 1}},
		{[]string{call, call, "<answer>(A) the cup</answer>"}, MiniO3Judgement{0.9 + 0.25, true, false, 2}},
		{[]string{call}, MiniO3Judgement{0.25, false, false, 1}},
		{nil, MiniO3Judgement{}},
	} {
		got := m.Of(c.turns, "A")
		if math.Abs(got.Score-c.want.Score) > 1e-12 || got.Correct != c.want.Correct || got.Formed != c.want.Formed || got.Tools != c.want.Tools {
			t.Errorf("%q: %+v, want %+v", c.turns, got, c.want)
		}
	}
}

func TestCuriosity(t *testing.T) {
	c := DefaultCuriosity()
	group := func(calls ...int) (g []Attempt) {
		for i, n := range calls {
			g = append(g, Attempt{Right: float64(i % 2), Calls: n})
		}
		return g
	}
	if s := c.Of(group(0, 0, 0, 0)); !slices.Equal(s.Rewards, []float64{0, 1, 0, 1}) || !s.RightWithoutTool || s.Difficulty != 2 {
		t.Errorf("nobody calls: %+v", s)
	}
	if s := c.Of(group(1, 1, 0, 0)); s.Curiosity[0] != 0 {
		t.Errorf("half of them call: %+v", s)
	}
	if s := c.Of(group(3, 0, 0, 0, 0)); math.Abs(s.Curiosity[0]-0.0625) > 1e-12 || math.Abs(s.Penalty[0]+0.1) > 1e-12 {
		t.Errorf("one calls: %+v", s)
	}
	g := group(0, 1, 0, 0)
	if g[1].Failed = true; c.Of(g).Rewards[1] > 0.1 {
		t.Error("a call that failed counts as right")
	}

	items := []rewards.Item{{Prompt: "right"}, {Prompt: "lost"}, {Prompt: "wrong"}}
	oracle := rewards.Func(func(_ context.Context, item rewards.Item) (rewards.Score, error) {
		if item.Prompt == "lost" {
			return rewards.Score{}, errNoReply
		}
		return rewards.Score{Value: one(item.Prompt == "right")}, nil
	})
	for _, r := range c.Judge(oracle, 1).Judge(t.Context(), items) {
		if r.Missing == nil {
			t.Error("a group with a sample missing was compared")
		}
	}
	items[1].Prompt = "right"
	items[1].Transcript = &rewards.Transcript{Turns: []rewards.Turn{{Tool: "zoom"}, {}}}
	got := c.Judge(oracle, 1).Judge(t.Context(), items)
	if v := rewards.Values(got); v[0] != 1 || v[1] != 1 || v[2] != 0 {
		t.Errorf("a third of them call: %v", v)
	}
}

func TestSearching(t *testing.T) {
	for _, c := range []struct {
		pages       []string
		right       []string
		once, twice float64
	}{
		{[]string{"a", "b"}, []string{"b", "a"}, 1, 1},
		{nil, []string{"a"}, 0, 0},
		{[]string{"a", "a"}, []string{"a"}, 1, 1 + 1/math.Log2(3)},
		{[]string{"x", "a"}, []string{"a"}, 1 / math.Log2(3), 1 / math.Log2(3)},
	} {
		if once, twice := NDCG(c.pages, c.right, true), NDCG(c.pages, c.right, false); math.Abs(once-c.once) > 1e-12 || math.Abs(twice-c.twice) > 1e-12 {
			t.Errorf("%v of %v: %v and %v", c.pages, c.right, once, twice)
		}
	}
	for _, c := range []struct {
		reply string
		want  float64
	}{{"red cup", 1}, {"red cap", 6. / 7}, {"blue", 0}, {"Red cup", 6. / 7}} {
		if got := ANLS(c.reply, []string{"red cup", "zzzzzzzzzzz"}, 0.5); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%q: %v, want %v", c.reply, got, c.want)
		}
	}
	for reply, want := range map[string]string{"<answer>a</answer><answer>b</answer>": "b", "<answer>a<answer>b</answer>": "b", "</answer><answer>": "", "x": ""} {
		if got, _ := AnswerBeforeEnd(reply); got != want {
			t.Errorf("%q: %q", reply, got)
		}
	}
}
