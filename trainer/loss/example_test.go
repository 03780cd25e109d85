package loss_test

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Estimates of a KL from two log-probabilities, and its slope at the first.
func ExampleKL() {
	for _, kind := range []string{"k1", "k2", "k3"} {
		kl, slope := loss.KL(kind, -1.0, -1.5)
		fmt.Printf("%s  %.4f  %.4f\n", kind, kl, slope)
	}
	// Output:
	// k1  0.5000  1.0000
	// k2  0.1250  0.5000
	// k3  0.1065  0.3935
}
