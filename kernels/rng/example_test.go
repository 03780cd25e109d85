package rng_test

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// A draw is a function of where it is used: any sample can be drawn again, alone.
func Example() {
	noise := rng.New(7).With("step noise").Iteration(3).Prompt(17).Sample(2).Step(5)
	latent := make([]float32, 4)
	noise.Normal(latent, 0)
	last := make([]float32, 1)
	noise.Normal(last, 3)
	fmt.Println(latent[3] == last[0])
	first, again := noise.Draw().Intn(1000), noise.Draw().Intn(1000)
	fmt.Println(first == again)
	// Output:
	// true
	// true
}
