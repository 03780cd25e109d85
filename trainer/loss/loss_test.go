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
		KLDenominator: []float64{0.5, 0.7, 1, 2, 3}, Std: []float64{0.6, 0.7, 0.8, 0.9, 1}, SqrtDt: []float64{0.3, 0.4, 0.5, 0.3, 0.4},
		Deviation: []float64{0.4}, Sigma: []float64{1, 0.9, 0.8, 0.7, 0.6}, SigmaBelow: []float64{0.95}}
	for i := range t.LogProb {
		t.LogProb[i] = t.Old[i] + 0.3*t.LogProb[i]
		t.LogProbRef = append(t.LogProbRef, t.Old[i]-0.4*t.LogProb[i])
	}
	return t
}

// clipTable is every form of the ratio with every option.
func clipTable() map[string]Clip {
	table := map[string]Clip{}
	for _, ratio := range []string{"plain", "guard", "guard_batch", "guard_plain"} {
		for name, change := range map[string]func(*Clip){
			"alone":        func(*Clip) {},
			"reference":    func(o *Clip) { o.KLWeight = 0.3 },
			"k1":           func(o *Clip) { o.KLWeight, o.KLEstimator = 0.3, "k1" },
			"k2":           func(o *Clip) { o.KLWeight, o.KLEstimator = 0.3, "k2" },
			"k3":           func(o *Clip) { o.KLWeight, o.KLEstimator = 0.3, "k3" },
			"dual":         func(o *Clip) { o.DualClip = 1.05 },
			"not cut":      func(o *Clip) { o.AdvLow, o.AdvHigh = 0, 0 },
			"noise":        func(o *Clip) { o.NoiseWeight = 2.25 },
			"noise's step": func(o *Clip) { o.NoiseScale, o.KLWeight = true, 0.3 },
			"change":       func(o *Clip) { o.ChangeWeight = 0.4 },
			"parts":        func(o *Clip) { o.Parts, o.ChangeWeight, o.KLWeight = 6, 0.4, 0.3 },
		} {
			o := Clip{Clipping: Clipped(0.1, 0.2, 0), RatioForm: RatioForm{Ratio: ratio}, AdvLow: 1, AdvHigh: 1.5}
			change(&o)
			table[ratio+" "+name] = o
		}
	}
	return table
}

func TestClipGradients(t *testing.T) {
	for name, o := range clipTable() {
		x := terms(rand.New(rand.NewPCG(1, 2)), 5)
		f := func() float64 {
			got, err := o.Of(x)
			if err != nil {
				t.Fatal(name, err)
			}
			return got.Loss
		}
		f()
		got, _ := o.Of(x)
		differences(t, name+" log-probability", x.LogProb, got.GradLogProb, f)
		for i := range got.GradMean {
			differences(t, fmt.Sprint(name, " mean ", i), x.Mean[i], got.GradMean[i], f)
		}
	}
}

// In the first update nothing has moved: every ratio is exactly 1, the loss is minus the
// mean advantage, and its gradient that of the plain policy gradient, however narrow the
// clip is.
func TestFirstUpdate(t *testing.T) {
	for name, o := range clipTable() {
		x := terms(rand.New(rand.NewPCG(3, 4)), 5)
		x.Weight = nil
		copy(x.LogProb, x.Old)
		x.MeanOld, x.MeanRef, x.LogProbRef = x.Mean, x.Mean, x.LogProb
		o.Clipping = Clipping{}
		if o.KLEstimator == "k1" { // pulls as hard where nothing has moved
			o.KLWeight = 0
		}
		got, err := o.Of(x)
		if err != nil {
			t.Fatal(err)
		}
		tau, scale := 1.0, o.guardFactor(x)/one(o.Parts)
		if o.guarded() {
			tau = guardScale(x)
		}
		if o.NoiseScale {
			scale *= LongCatScale(x.Sigma, x.SigmaBelow, x.SqrtDt)
		}
		want := 0.0
		for i, v := range got.Ratio {
			if v != 1 {
				t.Errorf("%s: ratio %v", name, v)
			}
			a := o.cut(x.Advantage[i])
			if o.NoiseWeight != 0 {
				a *= o.NoiseWeight * x.Deviation[0]
			}
			want -= a / 5 * scale
			if g := -a / 5 * tau * scale; math.Abs(got.GradLogProb[i]-g) > 1e-12 {
				t.Errorf("%s: gradient %v, want %v", name, got.GradLogProb[i], g)
			}
			for _, g := range got.GradMean {
				if sum(g) != 0 {
					t.Errorf("%s: gradient %v by a mean that has not moved", name, g)
				}
			}
		}
		if math.Abs(got.Loss-want) > 1e-12 || got.Metrics["clipped"] != 0 {
			t.Errorf("%s: loss %v, want %v; %v clipped", name, got.Loss, want, got.Metrics["clipped"])
		}
	}
	x := terms(rand.New(rand.NewPCG(3, 4)), 5)
	x.LogProb, x.MeanOld = x.Old, x.Mean
	dppo, err := DPPO{UseStd: true}.Of(x) // nothing has moved, so nothing moves on
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range x.Advantage {
		if dppo.Ratio[i] != 1 || math.Abs(dppo.GradLogProb[i]+a/5) > 1e-12 {
			t.Errorf("dppo: ratio %v, gradient %v, want %v", dppo.Ratio[i], dppo.GradLogProb[i], -a/5)
		}
	}
}

func TestClipErrors(t *testing.T) {
	for name, spoil := range map[string]func(*Clip, *Terms){
		"ratio":          func(o *Clip, _ *Terms) { o.Ratio = "odd" },
		"no rows":        func(_ *Clip, x *Terms) { *x = Terms{} },
		"no old":         func(_ *Clip, x *Terms) { x.Old = nil },
		"no advantage":   func(_ *Clip, x *Terms) { x.Advantage = x.Advantage[:2] },
		"short weights":  func(_ *Clip, x *Terms) { x.Weight = x.Weight[:2] },
		"guard, no old":  func(o *Clip, x *Terms) { o.Ratio, x.MeanOld = "guard", nil },
		"no reference":   func(o *Clip, x *Terms) { o.KLWeight, x.MeanRef = 1, nil },
		"no reference's": func(o *Clip, x *Terms) { o.KLWeight, o.KLEstimator, x.LogProbRef = 1, "k3", nil },
		"no denominator": func(o *Clip, x *Terms) { o.KLWeight, x.KLDenominator = 1, nil },
		"no deviation":   func(o *Clip, x *Terms) { o.NoiseWeight, x.Deviation = 1, nil },
		"no sigma":       func(o *Clip, x *Terms) { o.NoiseScale, x.Sigma = true, nil },
	} {
		o, x := DefaultClip(), terms(rand.New(rand.NewPCG(1, 2)), 5)
		if _, err := o.Of(x); err != nil {
			t.Fatal(err)
		}
		spoil(&o, &x)
		if _, err := o.Of(x); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCheck(t *testing.T) {
	clip := func(change func(*Clip)) Clip { o := DefaultClip(); change(&o); return o }
	for name, c := range map[string]struct {
		options interface {
			Check(func(key, problem, hint string))
		}
		keys string
	}{
		"clip":         {DefaultClip(), ""},
		"awm":          {AWM{Clipping: DefaultClipping(), AWMOptions: DefaultAWMOptions()}, ""},
		"all the way":  {clip(func(o *Clip) { o.ClipRange = 1 }), "clip_range"},
		"dual below 1": {clip(func(o *Clip) { o.DualClip = 1 }), "dual_clip"},
		"noise twice":  {clip(func(o *Clip) { o.NoiseWeight, o.NoiseScale = 1, true }), "noise_scale"},
		"awm, dual":    {AWM{Clipping: Clipped(0.1, 0, 0.5)}, "dual_clip"},
		"awm, its own": {AWM{Clipping: Clipped(1, 0, 0)}, ""},
	} {
		got := ""
		c.options.Check(func(key, _, _ string) { got += key })
		if got != c.keys {
			t.Errorf("%s: %q is reported, not %q", name, got, c.keys)
		}
	}
}

func TestDPPOGradient(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, o := range []DPPO{{}, {UseStd: true}, {KLWeight: 0.3, KLEstimator: "k3"}} {
		o.Threshold = 1
		x := terms(r, 5)
		got, err := o.Of(x)
		if err != nil {
			t.Fatal(err)
		}
		differences(t, "dppo", x.LogProb, got.GradLogProb, func() float64 { r, _ := o.Of(x); return r.Loss })
	}
	// By the means only the KL has a gradient.
	x, o := terms(r, 5), DPPO{Threshold: math.Inf(1), KLWeight: 0.3}
	got, err := o.Of(x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Mean {
		differences(t, "dppo's means", x.Mean[i], got.GradMean[i], func() float64 { r, _ := o.Of(x); return r.Loss })
	}
}

func TestDPPOErrors(t *testing.T) {
	for name, spoil := range map[string]func(*DPPO, *Terms){
		"no rows":                     func(_ *DPPO, x *Terms) { *x = Terms{} },
		"no old":                      func(_ *DPPO, x *Terms) { x.Old = nil },
		"no means":                    func(_ *DPPO, x *Terms) { x.MeanOld = nil },
		"no deviations":               func(o *DPPO, x *Terms) { o.UseStd, x.Std = true, nil },
		"no means of the reference":   func(o *DPPO, x *Terms) { o.KLWeight, x.MeanRef = 1, nil },
		"no log-probabilities of the": func(o *DPPO, x *Terms) { o.KLWeight, o.KLEstimator, x.LogProbRef = 1, "k3", nil },
	} {
		o, x := DPPO{}, terms(rand.New(rand.NewPCG(1, 2)), 5)
		if _, err := o.Of(x); err != nil {
			t.Fatal(err)
		}
		spoil(&o, &x)
		if _, err := o.Of(x); err == nil {
			t.Errorf("%s: no error", name)
		}
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
	o := NFT{ImplicitOptions: ImplicitOptions{Beta: 0.6}, AdvantageCut: AdvantageCut{AdvClip: 2}, KLWeight: 0.1}
	p := []float64{0.1, 0.9, 0.5, 1}
	held := func() float64 { return nftHeld(o, x, noised(rand.New(rand.NewPCG(7, 8)), 4), p) }
	check("nft", o.Of(x, p).GradV, held)

	_, grad = DGPO{Beta: 0.5, GroupSize: 2}.Of(x, a, []int{0, 0, 1, 1})
	check("dgpo", grad, func() float64 { return dgpoHeld(x, noised(rand.New(rand.NewPCG(7, 8)), 4), a) })
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

func TestAWM(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for _, ratios := range []string{"sum_first", "exp_first"} {
		for _, elbo := range []bool{false, true} {
			x := AWMTerms{LogProb: rows(r, 3, 4), Old: rows(r, 3, 4), Advantage: random(r, 4), V: rows(r, 12, 2), VRef: rows(r, 12, 2), VEMA: rows(r, 12, 2)}
			for k := range x.LogProb {
				for i := range x.LogProb[k] {
					x.LogProb[k][i] = x.Old[k][i] + 0.2*x.LogProb[k][i]
				}
			}
			for i := range x.V {
				x.Std = append(x.Std, AWMDeviation(float64(i)/12))
			}
			x.Std[0] = 0.1 // at time 0 nothing is noise, and the distance has no measure
			o := AWM{Clipping: Clipped(0.1, 0, 0), AWMOptions: AWMOptions{Ratios: ratios, AdvMax: 1, ELBO: elbo}, AdvClip: 2, KLWeight: 0.2, EMAWeight: 0.3}
			f := func() float64 { l, _ := o.Of(x); return l.Loss }
			got, err := o.Of(x)
			if err != nil {
				t.Fatal(err)
			}
			for k := range x.LogProb {
				differences(t, "awm "+ratios, x.LogProb[k], got.GradLogProb[k], f)
			}
			for i := range x.V {
				differences(t, "awm "+ratios+" velocity", x.V[i], got.GradV[i], f)
			}
			x.LogProb, x.VRef, x.VEMA = x.Old, nil, nil // the first update, with no one to stay near
			got, _ = o.Of(x)
			for k := range x.LogProb {
				for i, a := range x.Advantage {
					if want := -min(max(a, -2), 2) / 2 / 12; math.Abs(got.GradLogProb[k][i]-want) > 1e-12 {
						t.Errorf("first update: %v, want %v", got.GradLogProb[k][i], want)
					}
				}
			}
		}
	}
	if _, err := (AWM{AWMOptions: DefaultAWMOptions()}).Of(AWMTerms{}); err == nil {
		t.Error("no times, and no error")
	}
	if _, err := (AWM{}).Of(AWMTerms{LogProb: [][]float64{{1}}, Old: [][]float64{{1}}, Advantage: []float64{1}, V: [][]float64{{1}}}); err == nil {
		t.Error("no kind of ratios, and no error")
	}
}

// Where nothing has moved the two parts of NFT cancel at r = 1/2, a policy that is its
// reference has lost log 2 by DPO, and a sample that DGPO leaves out has no gradient.
func TestNoisedInvariants(t *testing.T) {
	x := noised(rand.New(rand.NewPCG(7, 9)), 4)
	x.VOld, x.VRef = x.V, nil
	got := NFT{ImplicitOptions: ImplicitOptions{Beta: 0.3}, AdvantageCut: AdvantageCut{AdvClip: 5}}.Of(x, []float64{0.5, 1, 0, 0.75})
	whole := NFT{ImplicitOptions: ImplicitOptions{Beta: 0.3}, AdvantageCut: AdvantageCut{AdvClip: 5}}.Of(x, []float64{1, 1, 1, 1})
	for i, share := range []float64{0, 1, -1, 0.5} { // 2r - 1
		for e := range x.V[i] {
			if math.Abs(got.GradV[i][e]-share*whole.GradV[i][e]) > 1e-12 {
				t.Errorf("nft: sample %d: %v, want %v of %v", i, got.GradV[i], share, whole.GradV[i])
			}
		}
	}
	x.VRef = x.V
	if d := DPO(x, [][2]int{{0, 2}, {1, 3}}, 3); math.Abs(d.Loss-math.Ln2) > 1e-12 || d.Margin != 0 || d.Accuracy != 0 {
		t.Errorf("dpo: %+v", d)
	}
	x = noised(rand.New(rand.NewPCG(7, 9)), 4)
	for i := range x.VOld { // the old error is the truth's 0, so all ratios are far below 1
		for e := range x.VOld[i] {
			x.VOld[i][e] = x.target(i, e)
		}
	}
	_, grad := DGPO{Clipping: Clipped(0.1, 0, 0), DGPOOptions: DGPOOptions{ClipFar: true}, Beta: 1, GroupSize: 4}.Of(x, []float64{1, -1, 1, -1}, []int{0, 0, 0, 0})
	for i, g := range grad {
		if gone := sum([]float64{math.Abs(g[0]), math.Abs(g[1]), math.Abs(g[2])}) == 0; gone != (i%2 == 1) {
			t.Errorf("dgpo: sample %d has gradient %v", i, g)
		}
	}
}

func TestSquaredChange(t *testing.T) {
	kl, grad := SquaredChange([]float64{1, 2}, []float64{0, 4})
	if kl != 1.25 || grad[0] != 0.5 || grad[1] != -1 {
		t.Error(kl, grad)
	}
}

// TestCRDGradient: the means that rewards are centred by, and the errors' own size, are held while the differences
// are taken.
func TestCRDGradient(t *testing.T) {
	x, a := noised(rand.New(rand.NewPCG(7, 8)), 4), []float64{1, -2, 0.5, 3}
	for _, options := range []CRDOptions{{Match: "mse", Temperature: -1}, {Match: "bce", Temperature: 0.5, Adaptive: true}, {Match: "mse", KLByReward: true}} {
		o := CRD{CRDOptions: options, Low: 2.5, High: 2.5, Beta: 0.7, KLWeight: 0.2}
		got := o.Of(x, a)
		fixed := noised(rand.New(rand.NewPCG(7, 8)), 4)
		for i := range got.GradV {
			differences(t, fmt.Sprint("crd ", i), x.V[i], got.GradV[i], func() float64 { return crdHeld(o, x, fixed, a) })
		}
	}
	x.VOld = x.V
	for i, r := range (CRD{CRDOptions: DefaultCRDOptions(), Low: 5, High: 5, Beta: 1}).Of(x, a).Reward {
		if r != 0 {
			t.Errorf("of the old network itself sample %d has the reward %v", i, r)
		}
	}
}

// crdHeld is the definition with means and sizes taken at another point.
func crdHeld(o CRD, x, fixed Noised, a []float64) (loss float64) {
	at := o.Of(fixed, a)
	n := float64(len(x.V))
	directions := o.directions(at.Share)
	for i, v := range x.V {
		reward := distance(x.VOld[i], x.targets()[i])/o.width(x.VOld[i], x.targets()[i]) - distance(v, x.targets()[i])/o.width(fixed.V[i], x.targets()[i])
		for _, p := range directions {
			z, y := o.Beta*(reward-dot(p, at.Reward)), at.Share[i]-dot(p, at.Share)
			value := (z - y) * (z - y)
			if o.Match == "bce" {
				s := 1 / (1 + math.Exp(-y))
				value = -s*math.Log(1/(1+math.Exp(-z))) - (1-s)*math.Log(1/(1+math.Exp(z)))
			}
			loss += o.High / o.Beta / float64(len(directions)) / n * value
		}
		weight := o.KLWeight
		if o.KLByReward {
			weight *= 1e-4/o.KLWeight + at.Share[i]*(1-1e-4/o.KLWeight)
		}
		loss += weight * distance(v, x.VRef[i]) / n
	}
	return loss
}
