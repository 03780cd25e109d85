package rollout_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestGuidedAnswers: part of a group is given the beginning of the solution: the others are as without it, a guided
// answer begins with as many of the solution's tokens as its turn has room for, Eval's log-probabilities of all its
// tokens are Roll's, and one that travelled is the same. A solution that no answer can draw is refused.
func TestGuidedAnswers(t *testing.T) {
	p := policy(t, true)
	const text = "Look at the red card"
	ask := p.Prompts
	solution := func(meta prompts.Meta) {
		p.Prompts = func(n int) (chat.Prompt, error) {
			q, err := ask(n)
			q.Meta = meta
			return q, err
		}
	}
	plain := rolled(t, p, keys(0))
	solution(`{"solution":"` + text + `"}`)
	p.Guided = &prompts.Guided{Key: "solution"}
	p.Given = func(k trainer.Key) int { return []int{3, 1000, 0, 0}[k.Sample] }
	whole, err := p.VLM.Tokens.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	samples := rolled(t, p, keys(0))
	a, err := p.Eval(trainer.Current, points(samples))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range samples {
		e := rollout.EpisodeOf(s)
		if !slices.Equal(a.Outputs[i], s.Decisions.LogProb) {
			t.Errorf("episode %d: Eval says %v, Roll said %v", i, a.Outputs[i], s.Decisions.LogProb)
		}
		if s.Key.Sample >= 2 {
			sameSamples(t, "one that is given nothing", plain[i:i+1], samples[i:i+1])
			continue
		}
		n := min(len(whole.IDs), p.Given(s.Key))
		own := e.Tokens[e.Prompt : e.Prompt+n]
		if e.Given != n || !slices.Equal(own, whole.IDs[:n]) || !s.Decisions.Trained[0] || e.Drawn(e.Prompt) != e.ModelLogProb[e.Prompt] {
			t.Errorf("episode %d: %d tokens were given, and it begins with %v of %v", i, e.Given, own, whole.IDs)
		}
		if s.Key.Sample == 1 && !strings.HasPrefix(e.Texts[0], text) {
			t.Errorf("episode %d says %q", i, e.Texts[0])
		}
	}
	m := &conversations.Model{Policy: p}
	back, said := slices.Clone(samples), make([]model.EncodedEpisode, len(samples))
	for i := range back {
		if said[i], err = m.Encode(back[i]); err != nil {
			t.Fatal(err)
		}
		back[i].Item.Episode = nil
	}
	if err := m.Decode(back, said); err != nil {
		t.Fatal(err)
	}
	for i := range back {
		if !reflect.DeepEqual(back[i].Item.Episode, samples[i].Item.Episode) {
			t.Errorf("episode %d came back as another", i)
		}
	}
	p.TurnTokens = 2
	for _, s := range rolled(t, p, keys(0))[:2] {
		if e := rollout.EpisodeOf(s); e.Given != 2 || len(s.Decisions.Step) != 2 || e.End != "cut" {
			t.Errorf("a turn of two tokens has %d, %d of them given, and ends as %q", len(s.Decisions.Step), e.Given, e.End)
		}
	}
	solution(`{"solution":"Done.<|im_end|>"}`)
	if _, err := p.Roll(trainer.Current, keys(0)); err == nil || !strings.Contains(err.Error(), "<|im_end|>") {
		t.Errorf("a solution that ends the turn: %v", err)
	}
}
