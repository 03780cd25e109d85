package loss

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Centered reward distillation (CRD, arXiv 2603.14128, as Flow-Factory has it): the network's own reward of a
// sample, how much nearer than the old network it comes to the flow's target u = noise - x0, follows the
// advantage's share.
//
//	R = -mean[(v-u)²/w - (v_old-u)²/w_old]       w = 1, or max(1e-5, mean |v-u|), without gradient
//	a = A cut to [-Low, High], from 0 to 1
//	p = softmax(±a/T) over the batch; both signs, or one uniform (T < 0); T = 0: softmax(a), and uniform
//	bce:  -mean[y·log σ(βRc) + (1-y)·log(1-σ(βRc))], y = σ(ac);   mse: mean (βRc - ac)²
//
// with Rc = R - p·R (p·R without gradient) and ac = a - p·a; the mean over directions, times High/β. Rows of
// other ranks count in p alone. The KL is KLWeight·mean of (m + a(1-m))·mean (v - v_ref)², m = 1e-4/KLWeight, or
// m = 1 where KLByReward is off.
//
// Differences: upstream rolls with one average of the weights and measures R against another; here the old network is
// both. Its reference is guided by classifier-free guidance; here it is the plain one.
//
// Invariants (tests): the gradient agrees with finite differences; as long as the network is the old one, R is 0.
type CRD struct {
	CRDOptions
	Low, High, Beta    float64
	KLWeight           float64
	OthersR, OthersAdv []float64 // of other ranks: R and a
}

// CRDOptions are the options that CRD alone has.
type CRDOptions struct {
	Match       string  `toml:"crd_match" enum:"mse,bce" doc:"of crd: its own rewards are brought to advantages by the squared distance, or by cross entropy"`
	Temperature float64 `toml:"crd_temperature" range:"[-1,100]" doc:"of crd: temperature of the samples' weights in the means that rewards are centred by; 0: by advantage and evenly; below 0: evenly"`
	Adaptive    bool    `toml:"crd_adaptive" doc:"of crd: errors count in units of their own mean size"`
	KLByReward  bool    `toml:"crd_kl_by_reward" doc:"of crd: the KL of a sample weighs by its advantage's share"`
}

// DefaultCRDOptions are Flow-Factory's.
func DefaultCRDOptions() CRDOptions {
	return CRDOptions{Match: "mse", Temperature: -1, Adaptive: true, KLByReward: true}
}

// CRDResult is the loss, and its gradient at the outputs.
type CRDResult struct {
	Loss, Policy, KL       float64
	Reward, Share, Distant []float64 // R, a, and the distance from the reference
	GradV                  [][]float64
}

// Of is the objective.
func (o CRD) Of(t Noised, advantages []float64) CRDResult {
	n := len(t.V)
	r := CRDResult{GradV: zeros(t.V)}
	targets := t.targets()
	for i, v := range t.V {
		old, now := distance(t.VOld[i], targets[i])/o.width(t.VOld[i], targets[i]), distance(v, targets[i])/o.width(v, targets[i])
		r.Reward = append(r.Reward, old-now)
		a := min(max(advantages[i], -o.Low), o.High) / o.High
		r.Share = append(r.Share, min(max(float64(a/2)+0.5, 0), 1))
	}
	all, shares := append(append([]float64(nil), r.Reward...), o.OthersR...), append(append([]float64(nil), r.Share...), o.OthersAdv...)
	directions := o.directions(shares)
	scale := o.High / math.Max(o.Beta, 1e-8) / float64(len(directions)*n)
	for _, p := range directions {
		meanR, meanA := dot(p, all), dot(p, shares)
		for i, v := range t.V {
			value, slope := o.of(o.Beta*(r.Reward[i]-meanR), r.Share[i]-meanA)
			r.Policy += float64(scale * value)
			w := scale * slope * o.Beta * -2 / (float64(len(v)) * o.width(v, targets[i]))
			for e := range v {
				r.GradV[i][e] += float64(w * (v[e] - targets[i][e]))
			}
		}
	}
	if t.VRef != nil { // without a weight there may be no reference
		o.addKL(t, &r)
	}
	r.Loss = r.Policy + r.KL
	return r
}

// width is w.
func (o CRD) width(v, target []float64) float64 {
	if !o.Adaptive {
		return 1
	}
	sum := 0.0
	for i := range v {
		sum += math.Abs(v[i] - target[i])
	}
	return math.Max(1e-5, sum/float64(len(v)))
}

// directions are the weights of the batch's rows that rewards are centred by.
func (o CRD) directions(shares []float64) [][]float64 {
	uniform := make([]float64, len(shares))
	for i := range uniform {
		uniform[i] = 1 / float64(len(shares))
	}
	switch {
	case o.Temperature < 0:
		return [][]float64{uniform}
	case o.Temperature == 0:
		return [][]float64{leaning(shares, 1, true), uniform}
	}
	return [][]float64{leaning(shares, 1/o.Temperature, false), leaning(shares, -1/o.Temperature, false)}
}

// leaning is the softmax of scale·x, over positive x alone where that is asked for and there are some.
func leaning(x []float64, scale float64, positive bool) []float64 {
	most, any := math.Inf(-1), false
	for _, v := range x {
		most, any = math.Max(most, scale*v), any || v > 0
	}
	p, sum := make([]float64, len(x)), 0.0
	for i, v := range x {
		switch {
		case positive && !any:
			p[i] = 1
		case !positive || v > 0:
			p[i] = portable.Exp(float64(scale*v) - most)
		}
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// of is one row's loss and its slope, at a reward z and an advantage's share a, both centred.
func (o CRD) of(z, a float64) (value, slope float64) {
	if o.Match == "mse" {
		return (z - a) * (z - a), 2 * (z - a)
	}
	y := sigmoid(a)
	return float64(y*softplus(-z)) + float64((1-y)*softplus(z)), sigmoid(z) - y
}

// addKL adds the distance from the reference.
func (o CRD) addKL(t Noised, r *CRDResult) {
	n := float64(len(t.V))
	for i, v := range t.V {
		r.Distant = append(r.Distant, distance(v, t.VRef[i]))
		w := o.KLWeight / n
		if o.KLByReward {
			m := 1e-4 / math.Max(o.KLWeight, 1e-8)
			w *= m + float64(r.Share[i]*(1-m))
		}
		r.KL += float64(w * r.Distant[i])
		for e := range v {
			r.GradV[i][e] += 2 * w * (v[e] - t.VRef[i][e]) / float64(len(v))
		}
	}
}

// dot is the sum of products.
func dot(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += float64(v * y[i])
	}
	return sum
}

// noisedCRD is CRD. The samples at one of their times are a batch, whose mean rewards are centred by.
func noisedCRD(options Options, _ int) NoisedLoss {
	o := options.CRD()
	return func(times int, groups []int, advantages []float64) Walk {
		v := WalkResult{Metrics: map[string][]float64{}}
		return Walk{
			Next: func(n Noised) (all [][]float64, err error) {
				for row := 0; row < len(n.V); row += len(groups) {
					r := o.Of(n.Rows(row, row+len(groups)), advantages)
					v.Loss += r.Loss / float64(times)
					for _, grad := range r.GradV {
						for e := range grad {
							grad[e] /= float64(times)
						}
						all = append(all, grad)
					}
					v.Metrics["kl"], v.Metrics["own_reward"] = append(v.Metrics["kl"], r.Distant...), append(v.Metrics["own_reward"], r.Reward...)
				}
				return all, nil
			},
			Result: func() WalkResult { return v },
		}
	}
}

// CRD is the objective of the options.
func (o Options) CRD() CRD {
	return CRD{CRDOptions: o.CRDOptions, Low: o.AdvClip, High: o.AdvClip, Beta: o.Beta, KLWeight: o.KL.Weight}
}

// CRDObjective is centred reward distillation.
var CRDObjective = Objective{
	Name: "crd", Card: "The network's own reward of a sample, its lead over the old network, is brought to the sample's advantage, both centred over the batch (Centered Reward Distillation); any solver may roll.",
	Paper: "Centered Reward Distillation (arXiv 2603.14128)", Formula: "(β·Rc - ac)², R = d_old - d; Rc and ac are R and the advantage's share, centred over the batch", Cases: []string{"loss.crd", "ema.crd_decay"},
	Pictures: &Form{
		Learns: NoisedSamples, Needs: Advantages | Flow | OldWeights | OldFollows | ReferenceIfWeighted,
		Options: struct {
			Forward
			ImplicitOptions
			AdvantageCut
			CRDOptions
			GuidanceOptions
		}{},
		Words: func(o Options) string {
			return fmt.Sprintf(", by %s, β %v, advantages cut to ±%v", o.Match, o.Beta, o.AdvClip)
		},
		Numbers: []string{"kl", "own_reward"},
		Noised:  noisedCRD,
	},
}
