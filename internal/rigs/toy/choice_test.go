package toy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// choosing is a run whose noise is a function of the key, over any number of prompts, of which the
// odd ones are dead: all their samples score the same.
func choosing(t *testing.T, seed uint64) (*Policy, *trainer.Trainer) {
	t.Helper()
	p, tr := newRun(t, seed)
	draw := func(k trainer.Key, step int) []float64 {
		r := rand.New(rand.NewPCG(uint64(k.Iteration<<16+k.Prompt<<8+k.Sample), uint64(step)))
		return []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
	}
	p.Start = func(k trainer.Key) []float64 { return draw(k, 99) }
	p.Noise = draw
	tr.Prompts = func(i int) []trainer.Key { return members3(i, 0, 1, 2) }
	tr.Score = func(samples []trainer.Sample) ([]float64, error) {
		var scores []float64
		for _, s := range samples {
			if s.Key.Prompt%2 == 1 {
				scores = append(scores, 0.5)
				continue
			}
			scores = append(scores, Distance(s.Item.Final, []float64{1, -1}))
		}
		return scores, nil
	}
	tr.Compare = func(samples []trainer.Sample, scores []float64) ([]float64, error) {
		return advantage.Defaults().Of(byPrompt(samples), scores)
	}
	return p, tr
}

func members3(iteration int, list ...int) []trainer.Key {
	var keys []trainer.Key
	for _, p := range list {
		for m := range members {
			keys = append(keys, trainer.Key{Iteration: iteration, Prompt: p, Sample: m})
		}
	}
	return keys
}

func byPrompt(samples []trainer.Sample) []int {
	var ids []int
	for _, s := range samples {
		ids = append(ids, s.Key.Prompt)
	}
	return ids
}

// keepUnequal is DAPO's filter.
func keepUnequal(samples []trainer.Sample, scores []float64) []bool {
	kept := make([]bool, len(samples))
	for _, i := range (advantage.Filter{By: "unequal"}).Kept(byPrompt(samples), scores, nil) {
		kept[i] = true
	}
	return kept
}

func step(t *testing.T, tr *trainer.Trainer) *trainer.Report {
	t.Helper()
	r, err := tr.Step()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFurther: dead groups are replaced by further prompts, and the update equals that of the live ones alone.
func TestFurther(t *testing.T) {
	p, tr := choosing(t, 11)
	tr.Selection.Keep = keepUnequal
	tr.Selection.Further = func(r *trainer.Report) []trainer.Key {
		if live := len(r.Samples) - 3*members; live >= members || r.Rolls == 3 {
			return nil
		}
		return members3(0, 4)
	}
	r := step(t, tr)
	if r.Rolls != 2 || len(r.Samples) != 4*members || len(r.Learned) != 3*members {
		t.Errorf("%d rolls, %d samples, %d learned from", r.Rolls, len(r.Samples), len(r.Learned))
	}
	for i, s := range r.Samples {
		if dead := s.Key.Prompt == 1; math.IsNaN(r.Advantages[i]) != dead || dead && r.Scores[i] != 0.5 {
			t.Errorf("sample %d of prompt %d: score %v, advantage %v", s.Key.Sample, s.Key.Prompt, r.Scores[i], r.Advantages[i])
		}
	}
	alone, other := choosing(t, 11)
	other.Prompts = func(i int) []trainer.Key { return members3(i, 0, 2, 4) }
	step(t, other)
	if !slices.Equal(p.Weights(trainer.Current), alone.Weights(trainer.Current)) {
		t.Error("the dead group moved the weights")
	}
	// With it, and averages over more samples, they would be others.
	_, whole := choosing(t, 11)
	whole.Prompts = func(i int) []trainer.Key { return members3(i, 0, 1, 2, 4) }
	step(t, whole)
	if slices.Equal(p.Weights(trainer.Current), whole.Policy.(*Policy).Weights(trainer.Current)) {
		t.Error("the filter changed nothing")
	}
}

// TestNothingKept: an iteration of dead groups moves nothing, and goes by.
func TestNothingKept(t *testing.T) {
	p, tr := choosing(t, 12)
	tr.Prompts = func(i int) []trainer.Key { return members3(i, 1, 3) }
	tr.Selection.Keep = keepUnequal
	before := p.Weights(trainer.Current)
	r := step(t, tr)
	if len(r.Updates) != 0 || len(r.Learned) != 0 || tr.Iteration != 1 || !slices.Equal(before, p.Weights(trainer.Current)) {
		t.Errorf("%d updates, %d learned from, iteration %d", len(r.Updates), len(r.Learned), tr.Iteration)
	}
}

// TestBest: those in the middle of a group are compared, and nobody is blamed for them.
func TestBest(t *testing.T) {
	_, tr := choosing(t, 13)
	tr.Prompts = func(i int) []trainer.Key { return members3(i, 0, 2) }
	tr.Selection.Best = func(r *trainer.Report, places []int) []int {
		var chosen []int
		for _, g := range advantage.Groups(byPrompt(r.Samples)) {
			for _, k := range advantage.BestOfN([]float64{r.Advantages[g[0]], r.Advantages[g[1]], r.Advantages[g[2]]}, 2) {
				chosen = append(chosen, g[k])
			}
		}
		slices.Sort(chosen)
		return chosen
	}
	r := step(t, tr)
	if len(r.Learned) != 4 || len(r.Updates[0].Metrics["ratio"]) != 2*4 {
		t.Errorf("learned from %v, %d ratios", r.Learned, len(r.Updates[0].Metrics["ratio"]))
	}
	sum := 0.0
	for _, i := range r.Learned {
		sum += math.Abs(r.Advantages[i])
	}
	for i, a := range r.Advantages {
		if !slices.Contains(r.Learned, i) && math.Abs(a) > sum/4 {
			t.Errorf("the advantage %v was left out, and the others are %v on average", a, sum/4)
		}
	}
}

// TestBuffer: groups come back with the log-probabilities that they were rolled with: only their
// ratios differ from 1 in the first update, and they are those of now to then.
func TestBuffer(t *testing.T) {
	_, tr := choosing(t, 14)
	tr.Optim.Updates = 1
	uniform := func(iteration, n int) []float64 {
		u := make([]float64, n)
		for i := range u {
			u[i] = math.Mod(0.37*float64(iteration+i+1), 1)
		}
		return u
	}
	b := &trainer.Buffer{Age: 1, Groups: 1, Uniform: uniform}
	tr.Selection.Buffer = b
	first := step(t, tr)
	if len(b.Kept) != 2 || first.Reused != 0 { // prompt 1 is dead
		t.Fatalf("%d groups are kept, %d samples reused", len(b.Kept), first.Reused)
	}
	old := slices.Clone(b.Kept)
	second := step(t, tr)
	fresh, reused := second.Updates[0].Metrics["ratio"], second.Updates[0].Metrics["ratio_reused"]
	if second.Reused != members || len(fresh) != 2*3*members || len(reused) != 2*members {
		t.Fatalf("%d reused; %d ratios, and %d of reused samples", second.Reused, len(fresh), len(reused))
	}
	for _, r := range fresh {
		if r != 1 {
			t.Errorf("a fresh sample's ratio is %v", r)
		}
	}
	for _, r := range reused {
		if r == 1 || math.Abs(r-1) > 0.5 {
			t.Errorf("a reused sample's ratio is %v", r)
		}
	}
	if len(b.Kept) != 4 || b.Kept[0].Iteration() != 0 || b.Kept[2].Iteration() != 1 {
		t.Errorf("%d groups are kept", len(b.Kept))
	}
	third := step(t, tr)
	if len(b.Kept) != 4 || b.Kept[0].Iteration() != 1 || third.Reused != members {
		t.Errorf("after the third iteration %d groups are kept, the oldest of iteration %d", len(b.Kept), b.Kept[0].Iteration())
	}
	if old[0].Samples[0].Reused || old[0].Samples[0].Item.Image != nil {
		t.Error("what is kept was changed by handing it out")
	}
}

// TestCurriculum: an iteration's prompts are those that fail, and these get learned where drawing
// them evenly has not got as far.
func TestCurriculum(t *testing.T) {
	far := func(with bool) (visits int, score float64) {
		_, tr := choosing(t, 15)
		c := prompts.Curriculum{Floor: 0.05}
		known := prompts.NewSuccesses(8)
		tr.Prompts = func(i int) []trainer.Key {
			list := prompts.Pick(rng.New(3), i, 1, 8)
			if with {
				list = c.Draw(rng.New(3).Iteration(i), known, 1, []int{0, 1, 2, 3, 4, 5, 6, 7})
			}
			return members3(i, list...)
		}
		tr.Score = func(samples []trainer.Sample) ([]float64, error) {
			var scores []float64
			for _, s := range samples {
				v := 1.0 // solved, but for prompt 6
				if s.Key.Prompt == 6 {
					v = math.Max(0, 1+Distance(s.Item.Final, []float64{1, -1})/8)
				}
				scores = append(scores, v)
			}
			return scores, nil
		}
		for range 60 {
			r := step(t, tr)
			c.Learn(known, r.Samples[0].Key.Prompt, r.Scores)
			if r.Samples[0].Key.Prompt == 6 {
				visits, score = visits+1, r.Scores[0]
			}
		}
		return visits, score
	}
	evenly, _ := far(false)
	often, _ := far(true)
	if often < 2*evenly {
		t.Errorf("of 60 iterations the failing prompt had %d, and drawn evenly %d", often, evenly)
	}
}
