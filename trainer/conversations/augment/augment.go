// Package augment changes pictures as training methods ask: noise (NoisyRollout), black patches (PAPO), grey.
package augment

import (
	"image/color"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: NoisyRollout (arXiv 2504.13055; verl/utils/image_aug.py of its code). Part of a group answers about distorted
// pictures, so that its members see different ones; training takes the clean ones. A picture x in [0, 1] becomes, by
// step n of a ladder of a thousand,
//
//	β_i = 1e-5 + (0.005 - 1e-5)·σ(-6 + 12i/999),  ᾱ = Π (1 - β_i) over i ≤ n
//	x' = √ᾱ·x + √(1 - ᾱ)·z, cut to [0, 1] and, as upstream, down to whole levels
//
// and n is the strength's whole part after it was annealed: iteration s, from 1, of S has
//
//	none 1    linear 1 - s/S    pow 1 - (s/S)^coef    exp 1 - coef^(S-s)
//	sigmoid 1 - σ(coef·(s - middle)/S)
//
// A prompt's noise is drawn once an iteration, and all that see it distorted see the same. At step 0 there is the
// least noise, and not none. The code compares the update with log-probabilities that were computed again on the
// clean picture, so that a first ratio is 1 though the sampled tokens had others: old = "clean". With old = "rolled"
// the ratio is to the sampling distribution.
//
// Invariants (tests): the schedules are the formulas above; a picture's mean falls by √ᾱ and its
// deviation grows to √(1-ᾱ) where nothing is cut; the same key has the same bytes.

// NoiseStep is the step of the noise in an iteration, from 1, of all.
func NoiseStep(n experiment.Noisy, iteration, all int) int {
	s, total := float64(iteration), float64(all)
	decay := 1.0
	switch n.Schedule {
	case "linear":
		decay = 1 - s/total
	case "pow":
		decay = 1 - portable.Pow(s/total, n.Coef)
	case "exp":
		decay = 1 - portable.Pow(n.Coef, total-s)
	case "sigmoid":
		decay = 1 - 1/(1+nn.Exp(-n.Coef*(s-n.Middle)/total))
	}
	return min(max(0, int(float64(n.Strength)*decay)), 999)
}

// ladder is ᾱ of a step.
func ladder(step int) float64 {
	product := 1.0
	for i := range step + 1 {
		beta := 1e-5 + (0.005-1e-5)/(1+nn.Exp(6-12*float64(i)/999))
		product *= 1 - beta
	}
	return product
}

// Distort is a picture with the noise of a step.
func Distort(m *vision.Image, step int, key rng.Key) *vision.Image {
	keep := ladder(step)
	signal, noise := math.Sqrt(keep), math.Sqrt(1-keep)
	z := make([]float32, len(m.Pix))
	key.Normal(z, 0)
	out := vision.New(m.Width, m.Height)
	for i, x := range m.Pix {
		// A product is rounded before it is added, for the same bytes on every machine.
		y := float64(signal*float64(x)/255) + float64(noise*float64(z[i]))
		out.Pix[i] = uint8(255 * min(max(y, 0), 1))
	}
	return out
}

// MaskPatches is a picture some of whose patches are black, each with the same probability.
func MaskPatches(m *vision.Image, patch int, share float64, key rng.Key) *vision.Image {
	out := vision.New(m.Width, m.Height)
	copy(out.Pix, m.Pix)
	depth, draw := len(m.Pix)/(m.Width*m.Height), key.Draw()
	for y := 0; y < m.Height; y += patch {
		for x := 0; x < m.Width; x += patch {
			if draw.Float64() >= share {
				continue
			}
			for row := y; row < min(y+patch, m.Height); row++ {
				clear(out.Pix[(row*m.Width+x)*depth : (row*m.Width+min(x+patch, m.Width))*depth])
			}
		}
	}
	return out
}

// Grey are pictures of the same sizes without anything on them.
func Grey(pictures []*vision.Image) (all []*vision.Image) {
	for _, m := range pictures {
		all = append(all, vision.NewFilled(m.Width, m.Height, color.RGBA{R: 128, G: 128, B: 128}))
	}
	return all
}
