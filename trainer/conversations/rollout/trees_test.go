package rollout_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// TestTrees: episodes that grow on trees. The first of a tree is as without trees, a branch has the turns of an
// episode of its tree up to where it parts, with their bits; other episodes change nothing; one that travelled is the
// same.
func TestTrees(t *testing.T) {
	p := policy(t, true)
	tree := experiment.Stems{Trees: 2, Expand: 3, Rounds: 2}
	var all []trainer.Key
	for prompt := range 2 {
		for sample := range tree.Trees * tree.Size() {
			all = append(all, trainer.Key{Prompt: prompt, Sample: sample})
		}
	}
	plain := rolled(t, p, all)
	p.Tree = &tree
	samples := rolled(t, p, all)
	p.Parallel = 1
	sameSamples(t, "one under way", samples, rolled(t, p, all))
	sameSamples(t, "beside no other prompt", samples[len(all)/2:], rolled(t, p, all[len(all)/2:]))
	a, err := p.Eval(trainer.Current, points(samples))
	if err != nil {
		t.Fatal(err)
	}
	stems, deep := 0, 0
	for i, s := range samples {
		e := rollout.EpisodeOf(s)
		if !slices.Equal(a.Outputs[i], s.Decisions.LogProb) {
			t.Errorf("episode %d: Eval says %v, Roll said %v", i, a.Outputs[i], s.Decisions.LogProb)
		}
		of, round := tree.Of(s.Key.Sample)
		if round == 0 || e.Stem == 0 {
			if e.Stem != 0 || e.Given != 0 {
				t.Errorf("episode %d, which begins at the question, has %d turns of another", i, e.Stem)
			}
			sameSamples(t, "one that begins at the question", plain[i:i+1], samples[i:i+1])
			continue
		}
		stems++
		last := e.Turns[e.Stem-1]
		found := false
		for j, other := range samples {
			its, before := tree.Of(other.Key.Sample)
			o := rollout.EpisodeOf(other)
			if other.Key.Prompt != s.Key.Prompt || its != of || before >= round || len(o.Turns) <= e.Stem || len(o.Tokens) < last.Observed || !slices.Equal(o.Tokens[:last.Observed], e.Tokens[:last.Observed]) {
				continue
			}
			found = true
			if before > 0 && o.Stem < e.Stem {
				deep++
			}
			n := 0
			for k, step := range s.Decisions.Step {
				if step < last.To {
					n++
					if s.Decisions.LogProb[k] != other.Decisions.LogProb[k] {
						t.Errorf("episode %d, token %d: %v, and %v in episode %d", i, step, s.Decisions.LogProb[k], other.Decisions.LogProb[k], j)
					}
				}
			}
			if e.Given != n {
				t.Errorf("episode %d: %d tokens were given, and its stem has %d", i, e.Given, n)
			}
		}
		if !found {
			t.Errorf("episode %d begins with %d turns of none of its tree's", i, e.Stem)
		}
	}
	if stems == 0 || deep == 0 {
		t.Errorf("%d branches part behind a turn, %d from a branch: nothing was tried", stems, deep)
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
	if _, err := p.Roll(trainer.Current, all[1:2]); err == nil {
		t.Error("a branch without its tree is played")
	}
}
