package loss

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// DiffusionNFT (Zheng et al., 2025): with x_t the noised clean sample, v the network's
// velocity and v_old that of the old weights,
//
//	v+ = β·v + (1-β)·v_old,  v- = (1+β)·v_old - β·v,  x0± = x_t - t·v±
//	l± = mean (x0± - x0)² / w±,  w± = max(1e-5, mean |x0± - x0|) without gradient
//	L  = clip · mean (r·l+ + (1-r)·l-)/β + klWeight · mean (v - v_ref)²
//
// r is the probability that a sample is optimal (advantage.Probability). Upstream's logged
// policy loss contains the KL term (an in-place +=); Policy here does not.
//
// Invariant (test): where v and v_old agree both parts pull on one error with opposite signs,
// and the gradient is (1 - 2r) times clip·2t·(x0± - x0)/w: nothing at r = 1/2.
type NFT struct {
	ImplicitOptions
	AdvantageCut
	KLWeight float64
}

// NFTResult also has the two parts of each sample.
type NFTResult struct {
	Loss, Policy, KL   float64
	Positive, Negative []float64
	OldDistance        float64
	GradV              [][]float64
}

// Of is the objective; r is a probability a sample.
func (o NFT) Of(t Noised, r []float64) NFTResult {
	var out NFTResult
	out.GradV = o.Add(&out, t, r, len(t.V))
	return out
}

// Add adds rows to a result, of `rows` in all, and is the gradient at their outputs.
func (o NFT) Add(out *NFTResult, t Noised, r []float64, rows int) (grad [][]float64) {
	grad = zeros(t.V)
	n := float64(rows)
	for i, v := range t.V {
		d, time := float64(len(v)), t.Time[i]
		errors := func(sign float64) (diff []float64, weight float64) {
			diff = make([]float64, len(v))
			for e := range v {
				x := float64((1-time)*t.Clean[i][e]) + float64(time*t.Noise[i][e])
				mixed := t.VOld[i][e] + float64(sign*o.Beta*(v[e]-t.VOld[i][e]))
				diff[e] = x - float64(time*mixed) - t.Clean[i][e]
				weight += math.Abs(diff[e]) / d
			}
			return diff, math.Max(weight, 1e-5)
		}
		plus, wp := errors(1)
		minus, wm := errors(-1)
		lp, lm := 0.0, 0.0
		for e := range v {
			lp += plus[e] * plus[e] / wp / d
			lm += minus[e] * minus[e] / wm / d
			old := v[e] - t.VOld[i][e]
			out.OldDistance += old * old / d / n
			kl := 0.0
			if t.VRef != nil { // without a weight there may be no reference
				kl = v[e] - t.VRef[i][e]
			}
			out.KL += kl * kl / d / n
			slope := float64(r[i]*2*plus[e]/wp*-time) + float64((1-r[i])*2*minus[e]/wm*time)
			grad[i][e] = float64(o.AdvClip/n*slope/d) + float64(o.KLWeight*2*kl/d/n)
		}
		out.Positive, out.Negative = append(out.Positive, lp), append(out.Negative, lm)
		out.Policy += o.AdvClip * (float64(r[i]*lp) + float64((1-r[i])*lm)) / o.Beta / n
	}
	out.Loss = out.Policy + float64(o.KLWeight*out.KL)
	return grad
}

// NFTOptions are the options of DiffusionNFT alone.
type NFTOptions struct {
	AdvMode string `toml:"adv_mode" enum:"all,positive_only,negative_only,one_only,binary" doc:"of nft: which advantages count"`
}

// NFT is the objective of the options.
func (o Options) NFT() NFT {
	return NFT{ImplicitOptions: o.ImplicitOptions, AdvantageCut: o.AdvantageCut, KLWeight: o.KL.Weight}
}

// NFTObjective is DiffusionNFT.
var NFTObjective = Objective{
	Name: "nft", Card: "Positive and negative implicit velocities on noised samples (DiffusionNFT); any solver may roll.",
	Paper: "DiffusionNFT (Zheng et al., 2025)", Formula: "(p·err(v_old + β(v - v_old)) + (1-p)·err(v_old - β(v - v_old))) / β, p the advantage as a probability",
	Cases: []string{"loss.nft", "loss.nft_r", "adv.nft_reward"},
	Pictures: &Form{
		Learns: NoisedSamples, Needs: Advantages | Flow | OldWeights | OldFollows | ReferenceIfWeighted,
		Options: struct {
			Forward
			ImplicitOptions
			AdvantageCut
			NFTOptions
			GuidanceOptions
		}{},
		Words: func(o Options) string {
			return fmt.Sprintf(", β %v, advantages (%s) cut to ±%v", o.Beta, o.AdvMode, o.AdvClip)
		},
		Numbers: []string{"kl", "distance_to_old", "probability"},
		Noised:  noisedNFT,
	},
}

// noisedNFT is the objective over all times.
func noisedNFT(options Options, _ int) NoisedLoss {
	o := options.NFT()
	return func(times int, groups []int, advantages []float64) Walk {
		rows := times * len(groups)
		r := advantage.Probability(repeated(advantages, rows), options.AdvClip, options.AdvMode)
		var sums NFTResult
		return Walk{
			Next: func(n Noised) ([][]float64, error) { return o.Add(&sums, n, r[:len(n.V)], rows), nil }, // alike at all times
			Result: func() WalkResult {
				return WalkResult{Loss: sums.Loss, Metrics: map[string][]float64{"kl": {sums.KL}, "distance_to_old": {sums.OldDistance}, "probability": r}}
			},
		}
	}
}
