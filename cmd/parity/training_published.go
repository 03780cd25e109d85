package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// nftDecayOf is the limit and the growth of DiffusionNFT's old policy, by the
// number that its scripts use; ok is false for any other number.
func nftDecayOf(number int) (limit float64, d optim.Decay, ok bool) {
	switch number {
	case 0: // the old policy is the current one
		return 0, optim.Decay{Kind: "constant"}, true
	case 1:
		return 0.5, optim.Decay{Kind: "ramp", Rate: 0.001}, true
	case 2:
		return 0.999, optim.Decay{Kind: "ramp", Rate: 0.0075, Copy: 76}, true
	}
	return 0, optim.Decay{}, false
}

// crdRamp is the limit and the growth of Flow-Factory's old network for CRD, by one of its names, or
// "start-from-slope-to": from before start, then from + (step - start)·slope, at most to.
func crdRamp(name string) (limit float64, d optim.Decay) {
	known := map[string]string{"0": "0-0-0-0", "none": "0-0-0-0", "1": "0-0-0.001-0.5", "slow": "0-0-0.001-0.5", "2": "75-0-0.0075-0.999",
		"medium": "75-0-0.0075-0.999", "3": "0-1-0-1", "offline": "0-1-0-1", "4": "0-0-0.02-0.99", "fast": "0-0-0.02-0.99",
		"5": "0-0-0.01-0.5", "moderate": "0-0-0.01-0.5", "6": "0-0-0.0075-0.999"}
	if numbers, ok := known[name]; ok {
		name = numbers
	}
	var n []float64
	for _, part := range strings.Split(name, "-") {
		v, wrong := strconv.ParseFloat(part, 64)
		if wrong != nil {
			failf("ramp %q: 0 to 6, a name, or start-from-slope-to is known", name)
		}
		n = append(n, v)
	}
	if len(n) != 4 {
		failf("ramp %q: it has four numbers", name)
	}
	return n[3], optim.Decay{Kind: "ramp", Flat: int(n[0]), Start: n[1], Rate: n[2]}
}

// lengthOf is the length of the whole gradient, over all tensors.
func lengthOf(grads [][]float64) float64 {
	sum := 0.0
	for _, g := range grads {
		for _, x := range g {
			sum += float64(x * x)
		}
	}
	return math.Sqrt(sum)
}

// clipNorm shortens gradients in place and returns their norm before.
func clipNorm(grads [][]float64, limit float64) (norm float64) {
	norm = lengthOf(grads)
	scale := optim.ClipScale(norm, limit)
	for _, g := range grads {
		for i := range g {
			g[i] *= scale
		}
	}
	return norm
}
