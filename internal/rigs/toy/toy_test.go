package toy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// clipped is a loss that reads all that decisions offer.
func clipped(kl float64) loss.Clip {
	return loss.Clip{Clipping: loss.Clipped(0.2, 0, 0), AdvLow: 5, AdvHigh: 5, KLWeight: kl}
}

const groups, members = 2, 3

var schedule = sde.Schedule{Sigmas: []float64{1, 0.8, 0.5, 0.2}}

// newRun is a policy of rows of two with two random steps of three, and a trainer
// for it.
func newRun(t *testing.T, seed uint64) (*Policy, *trainer.Trainer) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		return x
	}
	o := optim.Defaults()
	o.LR, o.Updates = 1e-2, 3
	net, err := NewLinear(2, draw(8), o)
	if err != nil {
		t.Fatal(err)
	}
	start, noise := map[trainer.Key][]float64{}, map[trainer.Key][][]float64{}
	var keys []trainer.Key
	for g := range groups {
		for m := range members {
			k := trainer.Key{Prompt: g, Sample: m}
			keys = append(keys, k)
			start[k], noise[k] = draw(4), [][]float64{draw(4), draw(4), draw(4)}
		}
	}
	p := &Policy{Linear: net,
		Rows:  []sde.Row{sde.FlowSDE(schedule, 0, 0.7, 0), sde.Euler(schedule, 1), sde.CPS(schedule, 2, 0.5)},
		Times: schedule.Sigmas[:3], Trained: []int{0, 2},
		Start: func(k trainer.Key) []float64 { return start[k] },
		Noise: func(k trainer.Key, step int) []float64 { return noise[k][step] },
	}
	target := [][]float64{{1, -1}, {-2, 0.5}}
	tr := &trainer.Trainer{Policy: p, Optim: o,
		Prompts: func(int) []trainer.Key { return keys },
		Score: func(samples []trainer.Sample) ([]float64, error) {
			var scores []float64
			for _, s := range samples {
				scores = append(scores, Distance(s.Item.Final, target[s.Key.Prompt]))
			}
			return scores, nil
		},
		Compare: func(_ []trainer.Sample, scores []float64) ([]float64, error) {
			mean := 0.0
			for _, s := range scores {
				mean += s / float64(len(scores))
			}
			out := slices.Clone(scores)
			for i := range out {
				out[i] -= mean
			}
			return out, nil
		},
		Objective: trainer.PolicyGradient{Rows: p.Rows, Loss: clipped(0.3).Of, Reference: true},
	}
	return p, tr
}

// TestFirstRatioIsOne: rolling and judging are one computation.
func TestFirstRatioIsOne(t *testing.T) {
	_, tr := newRun(t, 3)
	r, err := tr.Step()
	if err != nil {
		t.Fatal(err)
	}
	for u, update := range r.Updates {
		for i, ratio := range update.Metrics["ratio"] {
			if u == 0 && ratio != 1 {
				t.Errorf("ratio %d of the first update is %v", i, ratio)
			}
		}
	}
	if last := r.Updates[2].Metrics["ratio"]; len(last) != 2*groups*members || last[0] == 1 {
		t.Errorf("%d ratios in the last update, the first is %v: nothing moved", len(last), last[0])
	}
}

// TestGradient compares the weights' gradient with finite differences of the loss.
func TestGradient(t *testing.T) {
	p, tr := newRun(t, 4)
	samples, err := p.Roll(trainer.Current, tr.Prompts(0))
	if err != nil {
		t.Fatal(err)
	}
	advantages := []float64{1, -2, 0.5, 0.3, 2, -1}
	noised := trainer.ForwardProcess{
		Draw: func(k trainer.Key, _ int) (float64, []float64) { return 0.4, p.Noise(k, 1) },
		Loss: func(_ int, _ []int, advantages []float64) loss.Walk {
			var v loss.WalkResult // the adaptive weights of NFT have no gradient; this loss has none
			return loss.Walk{
				Next: func(t loss.Noised) ([][]float64, error) {
					return loss.AddWeightedFlow(&v.Loss, t, advantages, len(advantages)), nil
				},
				Result: func() loss.WalkResult { return v },
			}
		},
	}
	guard := clipped(0.1)
	guard.Ratio = "guard_plain"
	k3, noisy := clipped(0.1), clipped(0.1)
	k3.KLEstimator, noisy.NoiseScale = "k3", true
	one := func(sde.Row) float64 { return 1 }
	for name, o := range map[string]trainer.Objective{
		"decided": tr.Objective, "noised": noised, "guard": trainer.PolicyGradient{Rows: p.Rows, Loss: guard.Of, Reference: true},
		"k3": trainer.PolicyGradient{Rows: p.Rows, Loss: k3.Of, Reference: true}, "k3 of what rolled": trainer.PolicyGradient{Rows: p.Rows, Loss: k3.Of},
		"over one": trainer.PolicyGradient{Rows: p.Rows, Loss: clipped(0.1).Of, KLOver: one}, "by noise": trainer.PolicyGradient{Rows: p.Rows, Loss: noisy.Of, Reference: true},
	} {
		for i := range p.sets[trainer.Current] {
			loss := func(h float64) float64 {
				p.sets[trainer.Current][i] += h
				defer func() { p.sets[trainer.Current][i] -= h }()
				b, err := o.Evaluate(p, samples, advantages)
				if err != nil {
					t.Fatal(err)
				}
				return b.Loss
			}
			want := (loss(1e-6) - loss(-1e-6)) / 2e-6
			clear(p.grad)
			loss(0)
			if got := p.grad[i]; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%s: weight %d: gradient %v, differences say %v", name, i, got, want)
			}
		}
	}
}

// counted is a policy that counts the points that it is asked about at once.
type counted struct {
	trainer.Policy
	most, all int
}

func (p *counted) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	p.most, p.all = max(p.most, len(at)), p.all+len(at)
	return p.Policy.Eval(w, at)
}

// TestTimes: samples that are noised to many times are asked about at a few of them at once, and the gradient has the
// bits of all at once.
func TestTimes(t *testing.T) {
	p, tr := newRun(t, 4)
	samples, err := p.Roll(trainer.Current, tr.Prompts(0))
	if err != nil {
		t.Fatal(err)
	}
	const times = 50
	o := trainer.ForwardProcess{
		Times: times,
		Draw:  func(k trainer.Key, n int) (float64, []float64) { return (float64(n) + 0.5) / times, p.Noise(k, n%3) },
		Loss: func(times int, groups []int, advantages []float64) loss.Walk {
			var v loss.WalkResult
			return loss.Walk{
				Next: func(n loss.Noised) ([][]float64, error) {
					return loss.AddWeightedFlow(&v.Loss, n, slices.Repeat(advantages, len(n.V)/len(advantages)), times*len(groups)), nil
				},
				Result: func() loss.WalkResult { return v },
			}
		},
	}
	var losses []float64
	var grads [][]float64
	for _, o.Together = range []bool{true, false} {
		clear(p.grad)
		by := &counted{Policy: p}
		b, err := o.Evaluate(by, samples, []float64{1, -2, 0.5, 0.3, 2, -1})
		if err != nil {
			t.Fatal(err)
		}
		losses, grads = append(losses, b.Loss), append(grads, slices.Clone(p.grad))
		if n := times * len(samples); by.all != n || !o.Together && by.most > 64 || o.Together && by.most != n {
			t.Errorf("together %v: asked about %d points, %d at once", o.Together, by.all, by.most)
		}
	}
	if losses[0] != losses[1] || !slices.Equal(grads[0], grads[1]) || losses[0] == 0 {
		t.Errorf("losses %v, gradients %v", losses, grads)
	}
}

// TestUpdatesDraw: of several updates that see the same samples each noises them anew; those that share them out begin
// alike.
func TestUpdatesDraw(t *testing.T) {
	for _, split := range []bool{false, true} {
		p, tr := newRun(t, 4)
		seen := map[int]bool{}
		tr.Objective = trainer.ForwardProcess{
			Times: 2,
			Draw: func(k trainer.Key, n int) (float64, []float64) {
				seen[n] = true
				return 0.4, p.Noise(k, 1)
			},
			Loss: func(times int, groups []int, advantages []float64) loss.Walk {
				var v loss.WalkResult
				return loss.Walk{
					Next: func(n loss.Noised) ([][]float64, error) {
						return loss.AddWeightedFlow(&v.Loss, n, slices.Repeat(advantages, len(n.V)/len(advantages)), times*len(groups)), nil
					},
					Result: func() loss.WalkResult { return v },
				}
			},
		}
		tr.Optim.Updates, tr.Optim.Split = 3, split
		tr.Order = func(_, n int) []int { return rand.Perm(n) }
		if _, err := tr.Step(); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 6, true: 2}[split]; len(seen) != want {
			t.Errorf("split %v: three updates have the draws %v, want %d of a sample", split, seen, want)
		}
	}
}

// TestLearns: twenty iterations bring the samples closer to their targets.
func TestLearns(t *testing.T) {
	_, tr := newRun(t, 5)
	tr.Objective = trainer.PolicyGradient{Rows: tr.Policy.(*Policy).Rows, Loss: clipped(0).Of, Reference: true}
	score := func() float64 {
		r, err := tr.Step()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, s := range r.Scores {
			sum += s
		}
		return sum
	}
	first := score()
	for range 18 {
		score()
	}
	if last := score(); last < 0.8*first || tr.Iteration != 20 || tr.Updates != 60 {
		t.Errorf("score %v at first, %v after %d iterations and %d updates", first, last, tr.Iteration, tr.Updates)
	}
}

// asked is a policy that counts the questions to its network.
type asked struct {
	*Policy
	points int
}

func (a *asked) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	a.points += len(at)
	return a.Policy.Eval(w, at)
}

// TestSharedQuestions: decisions of a prompt at equal states are one question, and the gradient is
// that of each by itself.
func TestSharedQuestions(t *testing.T) {
	p, tr := newRun(t, 9)
	samples, err := p.Roll(trainer.Current, tr.Prompts(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples[:members] {
		s.Decisions.State[0] = slices.Clone(samples[0].Decisions.State[0])
	}
	advantages := []float64{1, -2, 0.5, 0.3, 2, -1}
	want, loss := make([]float64, len(p.grad)), 0.0
	for i := range samples {
		clear(p.grad)
		b, err := tr.Objective.Evaluate(p, samples[i:i+1], advantages[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		loss += b.Loss / float64(len(samples))
		for k, g := range p.grad {
			want[k] += g / float64(len(samples))
		}
	}
	clear(p.grad)
	policy := &asked{Policy: p}
	b, err := tr.Objective.Evaluate(policy, samples, advantages)
	if err != nil || math.Abs(b.Loss-loss) > 1e-12 {
		t.Fatalf("loss %v, and %v of each by itself (%v)", b.Loss, loss, err)
	}
	// Two steps, by the current weights and by the reference.
	if all := 2 * (2*groups*members - (members - 1)); policy.points != all {
		t.Errorf("%d questions, not %d", policy.points, all)
	}
	for i, g := range p.grad {
		if math.Abs(g-want[i]) > 1e-12*(1+math.Abs(g)) || g == 0 {
			t.Errorf("weight %d: gradient %v, and %v of each by itself", i, g, want[i])
		}
	}
}

// TestOwnAdvantages: a decision's own advantage takes the place of its sample's; with Even each
// decision weighs the same; where none may be judged, the weights stay.
func TestOwnAdvantages(t *testing.T) {
	p, tr := newRun(t, 10)
	samples, err := p.Roll(trainer.Current, tr.Prompts(0))
	if err != nil {
		t.Fatal(err)
	}
	blame := func(even bool, advantages []float64) (trainer.LossResult, []float64) {
		t.Helper()
		clear(p.grad)
		b, err := trainer.PolicyGradient{Even: even, Rows: p.Rows, Loss: clipped(0).Of}.Evaluate(p, samples, advantages)
		if err != nil {
			t.Fatal(err)
		}
		return b, slices.Clone(p.grad)
	}
	of := func(x float64) []float64 { return slices.Repeat([]float64{x}, len(samples)) }
	_, sample := blame(false, of(2))
	for i := range samples {
		samples[i].Decisions.Advantage = []float64{2, math.NaN(), 2}
	}
	if _, own := blame(false, of(-7)); !slices.Equal(own, sample) {
		t.Errorf("gradient %v, and %v of the sample's advantage", own, sample)
	}
	// Step 2 keeps one decision of six, whose advantage is another: 6 of 7 decisions are step 0's.
	for i := range samples {
		samples[i].Decisions.Advantage[2] = 5
		samples[i].Decisions.Trained = []bool{true, false, i == 0}
	}
	for even, want := range map[bool]float64{false: -(2. + 5) / 2, true: -(6*2. + 5) / 7} {
		if b, _ := blame(even, of(0)); math.Abs(b.Loss-want) > 1e-12 {
			t.Errorf("even %v: loss %v, want %v", even, b.Loss, want)
		}
	}
	for i := range samples {
		samples[i].Decisions.Trained = make([]bool, 3)
	}
	if b, _ := blame(false, of(0)); !b.Idle {
		t.Errorf("nothing may be judged, and it is %+v", b)
	}
	before := p.Weights(trainer.Current)
	tr.Compare = func(s []trainer.Sample, scores []float64) ([]float64, error) {
		for i := range s {
			s[i].Decisions.Advantage, s[i].Decisions.Trained = make([]float64, 3), make([]bool, 3)
		}
		return scores, nil
	}
	if r, err := tr.Step(); err != nil || len(r.Updates) != 0 || tr.Updates != 0 || !slices.Equal(before, p.Weights(trainer.Current)) {
		t.Errorf("nothing may be judged: %v updates, %v", len(r.Updates), err)
	}
}

// TestMemories: one that keeps nothing is the current weights, the reference stays.
func TestMemories(t *testing.T) {
	p, tr := newRun(t, 6)
	before := p.Weights(trainer.Reference)
	tr.Memories = []trainer.Memory{{Weights: trainer.Old, Pace: optim.Pace{Shape: optim.Decay{Kind: "constant"}}}}
	if _, err := tr.Step(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Weights(trainer.Reference), before) || slices.Equal(p.Weights(trainer.Current), before) {
		t.Error("the reference moved, or the weights did not")
	}
	for i, w := range p.Weights(trainer.Old) {
		if math.Abs(w-p.sets[trainer.Current][i]) > 1e-15 {
			t.Errorf("old weight %d is %v, want %v", i, w, p.sets[trainer.Current][i])
		}
	}
}

// TestMemoriesCount: with two updates an iteration, weights that follow each update have moved twice after
// one, and those that follow an iteration once.
func TestMemoriesCount(t *testing.T) {
	_, tr := newRun(t, 6)
	tr.Optim.Updates = 2
	pace := optim.Pace{Limit: 0.5, Shape: optim.Decay{Kind: "constant"}, Every: 3}
	tr.Memories = []trainer.Memory{{Weights: trainer.Old, Pace: pace}, {Weights: trainer.Average, Pace: pace, EachUpdate: true}}
	r, err := tr.Step()
	if err != nil || len(r.Updates) != 2 {
		t.Fatalf("%d updates, %v", len(r.Updates), err)
	}
	if old, average := tr.Memories[0].Pace.T, tr.Memories[1].Pace.T; old != 1 || average != 2 {
		t.Errorf("after one iteration of two updates: %d and %d steps", old, average)
	}
}
