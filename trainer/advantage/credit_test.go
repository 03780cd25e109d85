package advantage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func rows(r *rand.Rand, n, tokens int) [][]float64 {
	var all [][]float64
	for range n {
		all = append(all, random(r, tokens))
	}
	return all
}

// turns are masks of answers with observations between, and padding after.
func turns() [][]float64 {
	return [][]float64{{1, 1, 0, 1, 1, 0}, {1, 0, 0, 1, 0, 0}, {1, 1, 1, 1, 1, 1}, {0, 1, 1, 0, 1, 0}}
}

// tokens are answers of two groups, with all that credit looks at.
func tokens(r *rand.Rand, mask [][]float64) Tokens {
	n := len(mask)
	t := Tokens{Groups: []int{0, 1, 0, 1}, Mask: mask, Outcome: random(r, n), Values: rows(r, n, 6), LogProb: rows(r, n, 6), SumSquares: rows(r, n, 6)}
	for i := range n {
		for k := range 6 {
			t.LogProb[i][k] = -math.Abs(t.LogProb[i][k])
			t.SumSquares[i][k] = math.Exp(-math.Abs(t.SumSquares[i][k])) + 1
		}
	}
	t.Rewards = AtEnd(t.Outcome, mask, nil, 0)
	return t
}

func credit(t *testing.T, c Credit, x Tokens) (advantages, returns [][]float64) {
	t.Helper()
	a, r, err := c.Of(x)
	if err != nil {
		t.Fatal(err)
	}
	return a, r
}

// credits are all rules.
func credits() map[string]Credit {
	all := map[string]Credit{"spread": DefaultCredit(), "baseline": {How: "baseline"}, "compact": {How: "baseline", Compact: true}, "tail": {How: "baseline", Compact: true, ZeroTail: true}}
	for _, observations := range []string{"skip", "reset", "count"} {
		all[observations] = Credit{How: "gae", Gamma: 0.9, Lambda: 0.8, Observations: observations}
	}
	return all
}

// The published vector: mask 1,1,0,1, values .5,.6,9,.7, reward 1 at the end.
func TestGAE(t *testing.T) {
	x := Tokens{Mask: [][]float64{{1, 1, 0, 1}}, Rewards: [][]float64{{0, 0, 0, 1}}, Values: [][]float64{{0.5, 0.6, 9, 0.7}}}
	a, r := credit(t, Credit{How: "gae", Gamma: 1, Lambda: 0.9, Observations: "skip"}, x)
	if !close(a[0][0], 0.433) || !close(a[0][1], 0.37) || !close(a[0][3], 0.3) || !close(r[0][3], 1) {
		t.Error(a, r)
	}
	// With lambda 1 the return is the reward to come, whatever was expected.
	a, r = credit(t, Credit{How: "gae", Gamma: 1, Lambda: 1, Observations: "skip"}, x)
	if !close(r[0][0], 1) || !close(a[0][0], 0.5) {
		t.Error(a, r)
	}
}

// Discounted rewards to come, by the treatment of an observation.
func TestObservations(t *testing.T) {
	x := Tokens{Mask: [][]float64{{1, 0, 1}}, Rewards: [][]float64{{0, 0, 8}}}
	for observations, want := range map[string][]float64{"skip": {4, 8, 8}, "count": {2, 4, 8}, "reset": {0, 4, 8}} {
		_, r := credit(t, Credit{How: "gae", Gamma: 0.5, Lambda: 1, Observations: observations}, x)
		if !same(r[0], want) {
			t.Errorf("%s: %v, want %v", observations, r[0], want)
		}
	}
	full := [][]float64{{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}}
	y := tokens(rand.New(rand.NewPCG(1, 2)), full)
	c := credits()
	a, _ := credit(t, c["skip"], y)
	for _, other := range []string{"reset", "count"} {
		if b, _ := credit(t, c[other], y); !slices.EqualFunc(a, b, same) {
			t.Errorf("without observations %s differs from skip", other)
		}
	}
}

// ReMax: the greedy answer's reward is the baseline.
func TestGreedy(t *testing.T) {
	x := Tokens{Mask: [][]float64{{1, 0, 1}}, Rewards: [][]float64{{0, 0, 1}}, Greedy: []float64{0.25}}
	a, r := credit(t, Credit{How: "gae", Gamma: 1, Lambda: 1, Observations: "count"}, x)
	if !same(a[0], []float64{0.75, 1, 0.75}) || !same(r[0], []float64{1, 1, 1}) {
		t.Error(a, r)
	}
}

// Weighted by energy, a position's advantages add up to 0; positions of answers without
// observations are the same, however they are counted.
func TestTokenBaseline(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := tokens(r, turns())
	a, _ := credit(t, Credit{How: "baseline", Compact: true}, x)
	energy := x.energy()
	for _, g := range Groups(x.Groups) {
		positions, _ := Credit{Compact: true}.positions(x.Mask, g)
		for position, tokens := range positions {
			sum := 0.0
			for _, at := range tokens {
				sum += energy[at.answer][at.token] * a[at.answer][at.token]
			}
			if math.Abs(sum) > 1e-6 {
				t.Errorf("position %d of group %v adds up to %v", position, g, sum)
			}
		}
	}
	full := tokens(r, [][]float64{{1, 1, 1, 1, 0, 0}, {1, 1, 0, 0, 0, 0}, {1, 1, 1, 0, 0, 0}, {1, 1, 1, 1, 1, 1}})
	for _, tail := range []bool{false, true} {
		plain, _ := credit(t, Credit{How: "baseline", ZeroTail: tail}, full)
		compact, _ := credit(t, Credit{How: "baseline", ZeroTail: tail, Compact: true}, full)
		if !slices.EqualFunc(plain, compact, same) {
			t.Errorf("compact changed %v to %v", plain, compact)
		}
		if last := plain[3][5]; close(last, full.Outcome[3]) != tail {
			t.Errorf("zero tail %v: the longest answer ends with %v, it earned %v", tail, last, full.Outcome[3])
		}
	}
}

// An answer whose reward is missing is as if it were not there: its tokens have no advantage,
// and no other answer's change, whitened or not.
func TestMissingAnswer(t *testing.T) {
	for name, c := range credits() {
		for trial := range 8 {
			gone := trial % 4
			x := tokens(rand.New(rand.NewPCG(5, 6)), turns())
			c.Whiten = DefaultWhiten()
			c.Whiten.On = trial > 3
			x.Outcome[gone] = missingReward
			x.Rewards = AtEnd(x.Outcome, x.Mask, nil, 0)
			all, _ := credit(t, c, x)
			for k, on := range x.Mask[gone] {
				if on != 0 && !math.IsNaN(all[gone][k]) {
					t.Errorf("%s: token %d of the missing answer %d has %v", name, k, gone, all[gone][k])
				}
			}
			x = Tokens{Groups: drop(x.Groups, gone), Mask: drop(x.Mask, gone), Outcome: drop(x.Outcome, gone), Rewards: drop(x.Rewards, gone),
				Values: drop(x.Values, gone), LogProb: drop(x.LogProb, gone), SumSquares: drop(x.SumSquares, gone)}
			some, _ := credit(t, c, x)
			if rest := drop(all, gone); !slices.EqualFunc(rest, some, same) {
				t.Errorf("%s: %v, without the missing answer %d %v", name, rest, gone, some)
			}
		}
	}
}

// drop leaves out one answer.
func drop[T any](x []T, answer int) []T { return slices.Delete(slices.Clone(x), answer, answer+1) }

func TestWhiten(t *testing.T) {
	x, mask := rows(rand.New(rand.NewPCG(7, 8)), 4, 6), turns()
	for ddof := range 2 {
		for _, floor := range []bool{false, true} {
			w := Whiten{On: true, DDOF: ddof, Eps: 1e-12, Floor: floor}
			var n, sum, squares float64
			for i, row := range w.Of(x, mask) {
				for k, v := range row {
					if n += mask[i][k]; mask[i][k] == 0 && v != 0 {
						t.Errorf("%v outside of the mask", v)
					}
					sum, squares = sum+v, squares+v*v
				}
			}
			if math.Abs(sum) > 1e-9 || math.Abs(squares/(n-float64(ddof))-1) > 1e-9 {
				t.Errorf("%+v: sum %v, variance %v", w, sum, squares/(n-float64(ddof)))
			}
		}
	}
	w := DefaultWhiten()
	if y := w.Of(x, mask); &y[0][0] != &x[0][0] {
		t.Error("what is off changes something")
	}
	w.On, w.Outside = true, true
	if y := w.Of(x, mask); y[0][2] == 0 {
		t.Error("outside of the mask nothing moved")
	}
}

func TestAtEnd(t *testing.T) {
	kl := [][]float64{{1, 2, 3, 4}, {5, 6, 7, 8}}
	got := AtEnd([]float64{10, missingReward}, [][]float64{{1, 0, 1, 0}, {0, 0, 0, 0}}, kl, 0.5)
	if !same(got[0], []float64{-0.5, 0, 8.5, 0}) || !same(got[1], []float64{0, 0, 0, 0}) {
		t.Error(got)
	}
}

func TestCreditRefuses(t *testing.T) {
	for how, change := range map[string]func(*Tokens){
		"spread":   func(x *Tokens) { x.Outcome = nil },
		"gae":      func(x *Tokens) { x.Rewards = nil },
		"baseline": func(x *Tokens) { x.SumSquares = nil },
	} {
		x := tokens(rand.New(rand.NewPCG(9, 9)), turns())
		change(&x)
		if _, _, err := (Credit{How: how}).Of(x); err == nil {
			t.Errorf("%s lacks what it needs", how)
		}
	}
}
