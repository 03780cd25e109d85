package loss

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func random(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

func rows(r *rand.Rand, n, width int) [][]float64 {
	x := make([][]float64, n)
	for i := range x {
		x[i] = random(r, width)
	}
	return x
}

// differences holds a gradient to central differences of f.
func differences(t *testing.T, name string, x, grad []float64, f func() float64) {
	t.Helper()
	for i := range x {
		const h = 1e-6
		old := x[i]
		x[i] = old + h
		up := f()
		x[i] = old - h
		down := f()
		x[i] = old
		if want := (up - down) / (2 * h); math.Abs(grad[i]-want) > 1e-6*(1+math.Abs(want)) {
			t.Errorf("%s[%d]: %g, finite differences say %g", name, i, grad[i], want)
		}
	}
}

func terms(r *rand.Rand, n int) Terms {
	t := Terms{LogProb: random(r, n), Old: random(r, n), Advantage: random(r, n), Weight: random(r, n), Mean: rows(r, n, 3), MeanOld: rows(r, n, 3), MeanRef: rows(r, n, 3),
		KLDenominator: []float64{0.5, 0.7, 1, 2, 3}, Std: []float64{0.6, 0.7, 0.8, 0.9, 1}, SqrtDt: []float64{0.3, 0.4, 0.5, 0.3, 0.4}}
	for i := range t.LogProb {
		t.LogProb[i] = t.Old[i] + 0.3*t.LogProb[i]
	}
	return t
}

func TestClipGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, ratio := range []string{"plain", "guard", "guard_batch", "guard_plain"} {
		for _, weight := range []float64{0, 0.3} {
			x := terms(r, 5)
			o := Clip{Low: 0.1, High: 0.2, AdvLow: 1, AdvHigh: 1.5, Ratio: ratio, Boost: 1.3, Scale: 0.7, KLWeight: weight}
			f := func() float64 {
				got, err := o.Of(x)
				if err != nil {
					t.Fatal(err)
				}
				return got.Loss
			}
			got, err := o.Of(x)
			if err != nil {
				t.Fatal(err)
			}
			differences(t, ratio+" log-probability", x.LogProb, got.GradLogProb, f)
			for i := range got.GradMean {
				differences(t, fmt.Sprint(ratio, " mean ", i), x.Mean[i], got.GradMean[i], f)
			}
		}
	}
	if _, err := (Clip{Ratio: "guard"}).Of(Terms{LogProb: []float64{1}, Old: []float64{1}, Advantage: []float64{1}}); err == nil {
		t.Error("a guard without old means")
	}
	if _, err := (Clip{}).Of(Terms{LogProb: []float64{1}}); err == nil {
		t.Error("a log-probability without an old one")
	}
}

// In the first update nothing has moved: every ratio is exactly 1, the loss is minus the
// mean advantage, and its gradient that of the plain policy gradient.
func TestFirstUpdate(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := terms(r, 5)
	x.Weight = nil
	copy(x.LogProb, x.Old)
	x.MeanOld = x.Mean
	for _, ratio := range []string{"plain", "guard", "guard_batch", "guard_plain"} {
		got, err := Clip{Low: 1e-9, High: 1e-9, Ratio: ratio}.Of(x)
		if err != nil {
			t.Fatal(err)
		}
		tau, scale := 1.0, 1.0
		if ratio != "plain" {
			tau = guardScale(x)
			if ratio != "guard_plain" {
				scale = 1 / (average(x.SqrtDt) * average(x.SqrtDt))
			}
		}
		for i, v := range got.Ratio {
			if v != 1 {
				t.Errorf("%s: ratio %v", ratio, v)
			}
			if want := -x.Advantage[i] / 5 * tau * scale; math.Abs(got.GradLogProb[i]-want) > 1e-12 {
				t.Errorf("%s: gradient %v, want %v", ratio, got.GradLogProb[i], want)
			}
		}
		if got.Metrics["clipped"] != 0 {
			t.Errorf("%s: %v clipped", ratio, got.Metrics["clipped"])
		}
	}
}

func TestDPPOGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, std := range []bool{false, true} {
		x := terms(r, 5)
		o := DPPO{Threshold: 1, UseStd: std}
		got := o.Of(x)
		differences(t, "dppo", x.LogProb, got.GradLogProb, func() float64 { return o.Of(x).Loss })
	}
}

func noised(r *rand.Rand, n int) Noised {
	return Noised{Clean: rows(r, n, 3), Noise: rows(r, n, 3), V: rows(r, n, 3), VOld: rows(r, n, 3), VRef: rows(r, n, 3), Time: []float64{0.2, 0.5, 0.9, 0.7}}
}

func TestNoisedGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	x := noised(r, 4)
	w, a := random(r, 4), random(r, 4)
	check := func(name string, grad [][]float64, f func() float64) {
		t.Helper()
		for i := range grad {
			differences(t, fmt.Sprint(name, " ", i), x.V[i], grad[i], f)
		}
	}
	for _, weighting := range []string{"Uniform", "t", "t**2", "huber", "ghuber"} {
		_, grad, err := AWMLogProb(x, weighting, 0.8, w)
		if err != nil {
			t.Fatal(err)
		}
		check(weighting, grad, func() float64 {
			lp, _, _ := AWMLogProb(x, weighting, 0.8, w)
			return lp[0]*w[0] + lp[1]*w[1] + lp[2]*w[2] + lp[3]*w[3]
		})
	}
	if _, _, err := AWMLogProb(x, "odd", 1, w); err == nil {
		t.Error("an odd weighting")
	}
	pairs := [][2]int{{0, 2}, {3, 1}}
	check("dpo", DPO(x, pairs, 2).GradV, func() float64 { return DPO(x, pairs, 2).Loss })
	_, grad := WeightedFlow(x, w)
	check("weighted flow", grad, func() float64 { l, _ := WeightedFlow(x, w); return l })

	// Weights without gradient are held fixed while the differences are taken.
	o := NFT{Beta: 0.6, AdvClip: 2, KLWeight: 0.1}
	p := []float64{0.1, 0.9, 0.5, 1}
	held := func() float64 { return nftHeld(o, x, noised(rand.New(rand.NewPCG(7, 8)), 4), p) }
	check("nft", o.Of(x, p).GradV, held)

	_, grad = DGPO{Beta: 0.5, GroupSize: 2}.Of(x, a, []int{0, 0, 1, 1})
	check("dgpo", grad, func() float64 { return dgpoHeld(x, noised(rand.New(rand.NewPCG(7, 8)), 4), a) })
	if l, grad := RewardHinge([]float64{0.1, 0.9}, 0.7, 2); math.Abs(l-0.15) > 1e-12 || grad[0] != -0.25 || grad[1] != 0 {
		t.Error(l, grad)
	}
}

// nftHeld is the definition with the weights of x0's errors taken at another point.
func nftHeld(o NFT, x, fixed Noised, p []float64) (loss float64) {
	for i, v := range x.V {
		for k, sign := range []float64{1, -1} {
			share := []float64{p[i], 1 - p[i]}[k]
			weight, sum := 0.0, 0.0
			for e := range v {
				at := func(v float64) float64 {
					noisy := (1-x.Time[i])*x.Clean[i][e] + x.Time[i]*x.Noise[i][e]
					return noisy - x.Time[i]*(x.VOld[i][e]+sign*o.Beta*(v-x.VOld[i][e])) - x.Clean[i][e]
				}
				weight += math.Abs(at(fixed.V[i][e])) / 3
				sum += at(v[e]) * at(v[e]) / 3
			}
			loss += o.AdvClip * share * sum / math.Max(weight, 1e-5) / o.Beta / 4
		}
		loss += o.KLWeight * distance(v, x.VRef[i]) / 4
	}
	return loss
}

// dgpoHeld is the definition with the sigmoids taken at another point.
func dgpoHeld(x, fixed Noised, a []float64) (loss float64) {
	err := func(v []float64, i int) (d float64) {
		for e := range v {
			d += (v[e] - x.target(i, e)) * (v[e] - x.target(i, e)) / 3
		}
		return d
	}
	for i := range x.V {
		s := 0.0
		for j := range x.V {
			if j/2 == i/2 {
				s += a[j] * 0.5 * (err(fixed.V[j], j) - err(x.VRef[j], j)) / 2
			}
		}
		loss += a[i] * err(x.V[i], i) / (1 + math.Exp(-s)) / 4
	}
	return loss
}

func TestAWMRatios(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for _, first := range []bool{false, true} {
		lp, old, a := rows(r, 3, 4), rows(r, 3, 4), random(r, 4)
		for k := range lp {
			for i := range lp[k] {
				lp[k][i] = old[k][i] + 0.2*lp[k][i]
			}
		}
		o := AWM{Clip: Clip{Low: 0.1, High: 0.1, AdvLow: 2, AdvHigh: 2}, SumFirst: first}
		_, grad := o.Of(lp, old, a)
		for k := range lp {
			differences(t, "awm", lp[k], grad[k], func() float64 { l, _ := o.Of(lp, old, a); return l })
		}
	}
}

func TestDirectAlignment(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	clean, noise := random(r, 4), random(r, 4)
	noisy := DirectNoisy(clean, noise, 0.8)
	truth := make([]float64, 4)
	for i := range truth {
		truth[i] = noise[i] - clean[i]
	}
	back, slope := DirectClean(noisy, truth, noise, 0.8, 0.3)
	for i, c := range clean {
		if math.Abs(back[i]-c) > 1e-12 {
			t.Errorf("the true velocity leads back to %v, not %v", back[i], c)
		}
	}
	if math.Abs(slope-(0.3-0.8)/0.7) > 1e-12 {
		t.Error(slope)
	}
	kl, grad := SquaredChange([]float64{1, 2}, []float64{0, 4})
	if kl != 1.25 || grad[0] != 0.5 || grad[1] != -1 {
		t.Error(kl, grad)
	}
}
