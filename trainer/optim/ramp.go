package optim

import (
	"fmt"
	"strconv"
	"strings"
)

// Ramp is how Flow-Factory's CRD keeps its old network: From before Start, then From + (step - Start)·Slope, at
// most To. A share of 0 or less copies the current weights, one of 1 or more keeps the old ones.
type Ramp struct{ Start, From, Slope, To float64 }

// NamedRamp is one of the published ramps, or "start-from-slope-to".
func NamedRamp(name string) (Ramp, error) {
	switch name {
	case "0", "none":
		return Ramp{}, nil
	case "1", "slow":
		return Ramp{Slope: 0.001, To: 0.5}, nil
	case "2", "medium":
		return Ramp{Start: 75, Slope: 0.0075, To: 0.999}, nil
	case "3", "offline":
		return Ramp{From: 1, To: 1}, nil
	case "4", "fast":
		return Ramp{Slope: 0.02, To: 0.99}, nil
	case "5", "moderate":
		return Ramp{Slope: 0.01, To: 0.5}, nil
	case "6":
		return Ramp{Slope: 0.0075, To: 0.999}, nil
	}
	var numbers []float64
	for _, part := range strings.Split(name, "-") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return Ramp{}, fmt.Errorf("ramp %q: 0 to 6, a name, or start-from-slope-to is known", name)
		}
		numbers = append(numbers, v)
	}
	if len(numbers) != 4 {
		return Ramp{}, fmt.Errorf("ramp %q has %d numbers; start-from-slope-to has 4", name, len(numbers))
	}
	return Ramp{numbers[0], numbers[1], numbers[2], numbers[3]}, nil
}

// At is the share that is kept at a step.
func (r Ramp) At(step float64) float64 {
	if step < r.Start {
		return r.From
	}
	return min(r.From+float64((step-r.Start)*r.Slope), r.To)
}
