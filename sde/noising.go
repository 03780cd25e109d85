package sde

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// A Noising is the forward process at a time: a clean sample x0 and noise e become
//
//	x = Clean·x0 + Noise·e,  and the network is right where it puts out  OfClean·x0 + OfNoise·e
//
// Objectives on finished samples noise them anew by it, and compare outputs with the latter.
type Noising struct {
	Time             float64 // in the network's unit
	Clean, Noise     float64
	OfClean, OfNoise float64
}

// FlowNoising is a flow's at sigma: (1-sigma)·x0 + sigma·e, and the velocity e - x0. unit is the network's input at
// sigma 1.
func FlowNoising(sigma, unit float64) Noising {
	return Noising{Time: unit * sigma, Clean: 1 - sigma, Noise: sigma, OfClean: -1, OfNoise: 1}
}

// Noising is a ladder's, at a share of its training steps: with a the share of signal that step has kept, √a·x0 +
// √(1-a)·e. Steps are drawn evenly by shares drawn evenly, as in Diffusion-DPO and DDPM's own training.
func (o VPOptions) Noising(p Prediction) (func(share float64) Noising, error) {
	_, kept, err := o.NoiseLevels()
	if err != nil {
		return nil, err
	}
	if _, _, err := p.split(0.5); err != nil {
		return nil, fmt.Errorf("noising finished samples: %w", err)
	}
	return func(share float64) Noising {
		step := min(max(int(share*float64(len(kept))), 0), len(kept)-1)
		signal, noise := math.Sqrt(kept[step]), math.Sqrt(1-kept[step])
		n := Noising{Time: float64(step), Clean: signal, Noise: noise}
		switch p {
		case Sample:
			n.OfClean = 1
		case VPredict:
			n.OfClean, n.OfNoise = -noise, signal
		default:
			n.OfNoise = 1
		}
		return n
	}, nil
}

// Mixed is a·x0 + b·e.
func Mixed(a, b float64, clean, noise []float64) []float64 {
	x := make([]float64, len(clean))
	for i, c := range clean {
		x[i] = float64(a*c) + float64(b*noise[i])
	}
	return x
}

// Times at which training noises a clean sample. Draws are arguments: u uniform or normal,
// perm a permutation.

// LogitNormal is a shifted logit-normal time (AWM): sigmoid(std·u + mean), shifted.
func LogitNormal(u, mean, std, shift float64) float64 {
	return Shift(shift, 1/(1+portable.Exp(-(float64(u*std)+mean))))
}

// Quantile is the standard normal's at a share, which is kept 1e-7 away from 0 and 1.
func Quantile(share float64) float64 { return normalQuantile(math.Min(math.Max(share, 1e-7), 1-1e-7)) }
