package sde_test

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/sde"
)

// A solver is a row of numbers for each step. Here the data is one point, 1.5, and the velocity is known.
func Example() {
	schedule := sde.Static(3, 4)
	var rows []sde.Row
	for step := range schedule.Steps() {
		rows = append(rows, sde.Euler(schedule, step))
	}
	velocity := func(x []float64, step int) []float64 { return []float64{(x[0] - 1.5) / schedule.Sigmas[step]} }
	t := sde.Run(rows, []float64{-0.3}, velocity, nil)
	for i, x := range t.States {
		fmt.Printf("s = %.2f  x = %.3f\n", schedule.Sigmas[i], x[0])
	}
	// Output:
	// s = 1.00  x = -0.300
	// s = 0.90  x = -0.120
	// s = 0.75  x = 0.150
	// s = 0.50  x = 0.600
	// s = 0.00  x = 1.500
}

// A step that draws has a log-probability, the mean over elements of the Gaussian's.
func ExampleFlowSDE() {
	schedule := sde.Static(3, 4)
	row := sde.FlowSDE(schedule, 1, 0.7, 0)
	mean := []float64{0.2, -0.1}
	next := row.Draw(mean, []float64{1, -1}) // standard normals
	fmt.Printf("deviation %.4f, log-probability %.4f\n", row.Noise, row.LogProb(mean, next))
	// Output: deviation 0.8133, log-probability -1.2123
}
