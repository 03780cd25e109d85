package pictures_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
)

// planted is a painter whose samples are leaves, and the keys of two prompts' trees.
func planted(t *testing.T, trunk bool) (p *pictures.Policy, g sde.Growth, keys []trainer.Key) {
	p = painter(t, 1, flowSDE)
	schedule, err := p.Pipeline.Schedule(steps, p.At)
	if err != nil {
		t.Fatal(err)
	}
	g = sde.Growth{Splits: []int{0, 2}, Children: 2, Scale: 2, Trunk: trunk, Draws: func(step int) bool { return step == 1 },
		Stochastic: func(step int) sde.Row { return flowSDE(schedule, step) }, Deterministic: func(step int) sde.Row { return sde.Euler(schedule, step) }}
	p.Forest, p.Trained = pictures.NewForest(g, steps), []int{0, 1, 2}
	_, p.Rows = sde.Plan{Window: p.Trained, Inside: flowSDE, Outside: sde.Euler}.Rows(schedule)
	for prompt := range 2 {
		for k := range g.Leaves() * (1 + prompt) { // of the second prompt two trees
			keys = append(keys, trainer.Key{Prompt: prompt, Sample: k})
		}
	}
	return p, g, keys
}

// TestForest: trees take as many passes as their growth counts, in passes of any size; leaves
// that part late share their first decisions; and a leaf that is painted alone has the same bits.
func TestForest(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	for _, trunk := range []bool{false, true} {
		p, g, keys := planted(t, trunk)
		want := 0.0
		for _, n := range g.Passes(steps) {
			want += 3 * n
		}
		var all []trainer.Sample
		for _, micro := range []int{0, 3} {
			p.Micro, p.Passes = micro, ledger.Passes{}
			samples, err := p.Roll(trainer.Current, keys)
			if err != nil {
				t.Fatal(err)
			}
			if float64(p.Passes.Rollout) != want {
				t.Errorf("trunk %v: %d passes, not %v", trunk, p.Passes.Rollout, want)
			}
			for i := range all {
				if !slices.Equal(all[i].Item.Final, samples[i].Item.Final) {
					t.Errorf("trunk %v: sample %d is another one in passes of %d", trunk, i, micro)
				}
			}
			all = samples
		}
		finals := map[float64]bool{}
		for i, s := range all {
			finals[s.Item.Final[0]] = true
			d := s.Decisions
			switch {
			case trunk && len(d.Step) != 1:
				t.Errorf("a branch of a trunk has decisions at %v", d.Step)
			case !trunk && !slices.Equal(d.Step, []int{0, 1, 2}):
				t.Errorf("a leaf has decisions at %v", d.Step)
			}
			alone, err := p.Roll(trainer.Current, keys[i:i+1])
			if err != nil {
				t.Fatal(err)
			}
			if a := alone[0]; !slices.Equal(a.Item.Final, s.Item.Final) || !slices.Equal(a.Decisions.LogProb, d.LogProb) {
				t.Errorf("trunk %v: sample %d is another one alone", trunk, i)
			}
		}
		if len(finals) != len(all) {
			t.Errorf("trunk %v: %d of %d leaves differ", trunk, len(finals), len(all))
		}
		if trunk {
			continue
		}
		// Leaves 0 and 1 part at step 2, 0 and 2 at step 0.
		a, b, c := all[0].Decisions, all[1].Decisions, all[2].Decisions
		if &a.Action[0][0] != &b.Action[0][0] || &a.State[2][0] != &b.State[2][0] || a.LogProb[2] == b.LogProb[2] {
			t.Error("leaves that part at step 2 have nothing in common before")
		}
		if &a.State[0][0] != &c.State[0][0] || a.LogProb[0] == c.LogProb[0] {
			t.Error("leaves that part at once share their start alone")
		}
	}
}

// TestForestLearns: the first ratios are exactly 1, and weights have the same bytes for passes of
// any size.
func TestForestLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	for _, trunk := range []bool{false, true} {
		var first []byte
		for _, micro := range []int{0, 2} {
			p, _, all := planted(t, trunk)
			p.Micro = micro
			ratios, final := iterateOver(t, p, all, 2)
			for _, some := range ratios {
				for _, r := range some {
					if r != 1 {
						t.Fatalf("trunk %v, passes of %d: ratios %v", trunk, micro, some)
					}
				}
			}
			if first == nil {
				first = final
			} else if !bytes.Equal(first, final) {
				t.Errorf("trunk %v: passes of %d make other weights", trunk, micro)
			}
			p.Free()
		}
	}
}
