package ref

import "github.com/darkroom-rl/darkroom/kernels"

// activate applies an activation to a row.
func activate(op kernels.UnaryOp, v []float32) {
	if op != kernels.Identity {
		panic("ref: activations are to come")
	}
}
