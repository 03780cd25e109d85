package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Centered reward distillation (CRD, as Flow-Factory has it): the network's own reward of a sample, how much
// nearer than the old network it comes to the flow's target u = noise - x0, follows the advantage's share.
//
//	R = -mean[(v-u)²/w - (v_old-u)²/w_old]       w = 1, or max(1e-5, mean |v-u|), without gradient
//	a = A cut to [-Low, High], from 0 to 1
//	p = softmax(±a/T) over the batch; both signs, or one uniform (T < 0); T = 0: softmax(a), and uniform
//	bce:  -mean[y·log σ(βRc) + (1-y)·log(1-σ(βRc))], y = σ(ac);   mse: mean (βRc - ac)²
//
// with Rc = R - p·R (p·R without gradient) and ac = a - p·a; the mean over directions, times High/β. Rows of
// other ranks count in p alone. The KL is KLWeight·mean of (m + a(1-m))·mean (v - v_ref)², m = 1e-4/KLWeight, or
// m = 1 where RewardKL is off.
//
// Invariant (test): the gradient agrees with finite differences.
type CRD struct {
	Low, High, Beta    float64
	Squares            bool    // mse in place of bce
	Temperature        float64 // T
	Adaptive           bool    // w
	KLWeight           float64
	RewardKL           bool
	OthersR, OthersAdv []float64 // of other ranks: R and a
}

// CRDTerms are what it looks at, a row a sample.
type CRDTerms struct {
	Target, Output, Old, Ref [][]float64 // u, v, v_old, v_ref
	Advantage                []float64
}

// CRDResult is the loss, and its gradient at the outputs.
type CRDResult struct {
	Loss, Policy, KL       float64
	Reward, Share, Distant []float64 // R, a, and the distance from the reference
	Grad                   [][]float64
}

// Of is the objective.
func (o CRD) Of(t CRDTerms) CRDResult {
	n := len(t.Output)
	r := CRDResult{Grad: zeros(t.Output)}
	for i, v := range t.Output {
		r.Reward = append(r.Reward, distance(t.Old[i], t.Target[i])/o.width(t.Old[i], t.Target[i])-distance(v, t.Target[i])/o.width(v, t.Target[i]))
		a := min(max(t.Advantage[i], -o.Low), o.High) / o.High
		r.Share = append(r.Share, min(max(float64(a/2)+0.5, 0), 1))
		r.Distant = append(r.Distant, distance(v, t.Ref[i]))
	}
	all, shares := append(append([]float64(nil), r.Reward...), o.OthersR...), append(append([]float64(nil), r.Share...), o.OthersAdv...)
	directions := o.directions(shares)
	scale := o.High / math.Max(o.Beta, 1e-8) / float64(len(directions)*n)
	for _, p := range directions {
		meanR, meanA := dot(p, all), dot(p, shares)
		for i, v := range t.Output {
			value, slope := o.of(o.Beta*(r.Reward[i]-meanR), r.Share[i]-meanA)
			r.Policy += float64(scale * value)
			w := scale * slope * o.Beta * -2 / (float64(len(v)) * o.width(v, t.Target[i]))
			for e := range v {
				r.Grad[i][e] += float64(w * (v[e] - t.Target[i][e]))
			}
		}
	}
	o.addKL(t, &r)
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
	if o.Squares {
		return (z - a) * (z - a), 2 * (z - a)
	}
	y := sigmoid(a)
	return float64(y*softplus(-z)) + float64((1-y)*softplus(z)), sigmoid(z) - y
}

// addKL adds the distance from the reference.
func (o CRD) addKL(t CRDTerms, r *CRDResult) {
	n := float64(len(t.Output))
	for i, v := range t.Output {
		w := o.KLWeight / n
		if o.RewardKL {
			m := 1e-4 / math.Max(o.KLWeight, 1e-8)
			w *= m + float64(r.Share[i]*(1-m))
		}
		r.KL += float64(w * r.Distant[i])
		for e := range v {
			r.Grad[i][e] += 2 * w * (v[e] - t.Ref[i][e]) / float64(len(v))
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
