package advantage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// estimators are all rules, with one reward and with several.
func estimators() map[string]func() Estimator {
	all := map[string]func() Estimator{}
	for _, rule := range []string{"compare", "best", "ends", "pass-at-k", "diversity", "opo", "gpg", "history"} {
		for _, how := range []string{"rewards", "advantages", "gdpo"} {
			for _, partial := range []bool{false, true} {
				if rule == "history" && how != "rewards" {
					continue
				}
				all[fmt.Sprintf("%s/%s/%v", rule, how, partial)] = func() Estimator {
					return Estimator{Rule: rule, Options: Defaults(), Several: Several{How: how, Partial: partial}, History: &History{Size: 9, Min: 3}}
				}
			}
		}
	}
	return all
}

// batch is samples of three groups with two rewards and all that rules look at.
func batch(r *rand.Rand) Batch {
	b := Batch{Groups: []int{0, 1, 0, 1, 0, 2, 2, 1, 0, 2, 2}, Weights: []float64{1, 0.5}}
	n := len(b.Groups)
	b.Rewards, b.Lengths = [][]float64{random(r, n), random(r, n)}, make([]float64, n)
	for i, g := range b.Groups {
		b.Features = append(b.Features, random(r, 3))
		b.Lengths[i] = float64(3 + r.IntN(9))
		b.Prompts = append(b.Prompts, fmt.Sprint("prompt ", g))
	}
	return b
}

// without is a batch of only some samples.
func without(b Batch, gone map[int]bool) Batch {
	out := Batch{Weights: b.Weights, Rewards: make([][]float64, len(b.Rewards))}
	for i := range b.Groups {
		if !gone[i] {
			out = with(out, b, i)
		}
	}
	return out
}

// with is a batch and a sample of another.
func with(out, b Batch, i int) Batch {
	for k := range b.Rewards {
		out.Rewards[k] = append(out.Rewards[k], b.Rewards[k][i])
	}
	out.Groups, out.Prompts = append(out.Groups, b.Groups[i]), append(out.Prompts, b.Prompts[i])
	out.Features, out.Lengths = append(out.Features, b.Features[i]), append(out.Lengths, b.Lengths[i])
	return out
}

func advantages(t *testing.T, e Estimator, b Batch) []float64 {
	t.Helper()
	a, _, err := e.Advantages(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A sample without a reward is as if it were not there, by every rule, and nobody is blamed
// for it.
func TestMissingIsAbsent(t *testing.T) {
	for name, e := range estimators() {
		b := batch(rand.New(rand.NewPCG(3, 4)))
		gone := map[int]bool{2: true, 7: true, 8: true}
		for i := range gone {
			b.Rewards[0][i], b.Rewards[1][i] = missingReward, missingReward
		}
		a, want, k := advantages(t, e(), b), advantages(t, e(), without(b, gone)), 0
		for i := range a {
			switch {
			case gone[i] && !math.IsNaN(a[i]):
				t.Errorf("%s: a missing reward has the advantage %v", name, a[i])
			case gone[i]:
			case math.IsNaN(a[i]) || !close(a[i], want[k]):
				t.Errorf("%s: sample %d has %v, without the missing ones %v", name, i, a[i], want[k])
			}
			if !gone[i] {
				k++
			}
		}
	}
}

// One reward of two is missing: the sample has none, or, with partial, the other one.
func TestPartlyMissing(t *testing.T) {
	for name, e := range estimators() {
		b := batch(rand.New(rand.NewPCG(5, 6)))
		b.Rewards[1][4] = missingReward
		a := advantages(t, e(), b)
		if got, want := math.IsNaN(a[4]), !e().Partial; got != want {
			t.Errorf("%s: the sample has %v", name, a[4])
		}
		for i, v := range a {
			if i != 4 && math.IsNaN(v) {
				t.Errorf("%s: sample %d lost its advantage too", name, i)
			}
		}
	}
}

// All rewards are missing, or a whole group's: nothing is made up.
func TestAllMissing(t *testing.T) {
	for name, e := range estimators() {
		b := batch(rand.New(rand.NewPCG(7, 8)))
		for i, g := range b.Groups {
			if g == 1 {
				b.Rewards[0][i], b.Rewards[1][i] = missingReward, missingReward
			}
		}
		for i, v := range advantages(t, e(), b) {
			if math.IsNaN(v) != (b.Groups[i] == 1) {
				t.Errorf("%s: sample %d of group %d has %v", name, i, b.Groups[i], v)
			}
		}
		for i := range b.Groups {
			b.Rewards[0][i], b.Rewards[1][i] = missingReward, missingReward
		}
		for i, v := range advantages(t, e(), b) {
			if !math.IsNaN(v) {
				t.Errorf("%s: sample %d has %v", name, i, v)
			}
		}
	}
}

// The order of samples does not matter.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for name, e := range estimators() {
		b := batch(r)
		order := r.Perm(len(b.Groups))
		mixed := Batch{Weights: b.Weights, Rewards: make([][]float64, 2)}
		for _, i := range order {
			mixed = with(mixed, b, i)
		}
		a, m := advantages(t, e(), b), advantages(t, e(), mixed)
		for k, i := range order {
			if !close(a[i], m[k]) {
				t.Errorf("%s: the order changed %v to %v", name, a[i], m[k])
			}
		}
	}
}

// Several rewards: one of weight 1 is the estimator itself, and units do not matter where
// each is compared by itself.
func TestSeveral(t *testing.T) {
	b := batch(rand.New(rand.NewPCG(11, 12)))
	large := b
	large.Rewards = [][]float64{b.Rewards[0], make([]float64, len(b.Groups))}
	for i, v := range b.Rewards[1] {
		large.Rewards[1][i] = 1000 * v
	}
	one := Batch{Groups: b.Groups, Rewards: b.Rewards[:1]}
	for _, how := range []string{"rewards", "advantages", "gdpo"} {
		e := Estimator{Options: Defaults(), Several: Several{How: how}}
		e.Eps = 1e-12
		a, want := advantages(t, e, one), of(t, e.Options, b.Groups, b.Rewards[0])
		if how != "gdpo" && !same(a, want) {
			t.Errorf("%s of one: %v, want %v", how, a, want)
		}
		if a, l := advantages(t, e, b), advantages(t, e, large); same(a, l) != (how != "rewards") {
			t.Errorf("%s: a thousandfold reward changes %v to %v", how, a, l)
		}
	}
	e := Estimator{Options: Defaults(), Several: Several{How: "advantages"}}
	e.Clip = 1.2 // of the sum
	sum, err := e.Add([][]float64{of(t, Defaults(), b.Groups, b.Rewards[0]), of(t, Defaults(), b.Groups, b.Rewards[1])}, b.Weights)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range advantages(t, e, b) {
		if want := math.Min(math.Max(sum[i], -1.2), 1.2); !close(a, want) {
			t.Errorf("cut to 1.2: %v, want %v", a, want)
		}
	}
}

func TestEstimatorRefuses(t *testing.T) {
	b := batch(rand.New(rand.NewPCG(13, 14)))
	for name, c := range map[string]struct {
		e      Estimator
		change func(*Batch)
	}{
		"unknown":             {Estimator{Rule: "grpo"}, func(*Batch) {}},
		"no history":          {Estimator{Rule: "history"}, func(*Batch) {}},
		"histories":           {Estimator{Rule: "history", History: &History{Size: 1}, Several: Several{How: "gdpo"}}, func(*Batch) {}},
		"no room":             {Estimator{Rule: "history", History: &History{}}, func(*Batch) {}},
		"no prompts":          {Estimator{Rule: "history", History: &History{Size: 1}}, func(b *Batch) { b.Prompts = nil }},
		"no features":         {Estimator{Rule: "diversity"}, func(b *Batch) { b.Features = nil }},
		"no lengths":          {Estimator{Rule: "opo"}, func(b *Batch) { b.Lengths = nil }},
		"no rewards":          {Estimator{}, func(b *Batch) { b.Rewards = nil }},
		"a reward too few":    {Estimator{}, func(b *Batch) { b.Rewards = [][]float64{b.Rewards[0][1:]} }},
		"infinite":            {Estimator{}, func(b *Batch) { b.Rewards = [][]float64{slices.Repeat([]float64{math.Inf(1)}, len(b.Groups))} }},
		"weights of too many": {Estimator{}, func(b *Batch) { b.Weights = []float64{1} }},
	} {
		other := b
		c.change(&other)
		if a, _, err := c.e.Advantages(other); err == nil {
			t.Errorf("%s: %v", name, a)
		}
	}
}
