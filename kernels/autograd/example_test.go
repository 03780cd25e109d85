package autograd_test

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// The gradient of a weighted sum of y = w·x + b.
func Example() {
	pool := tensor.NewPool(ref.Backend{})
	w := autograd.NewParam("w", pool.FromF32(kernels.F32, []float32{1, 2, 3, 4}, 2, 2), true)
	b := autograd.NewParam("b", pool.FromF32(kernels.F32, []float32{10, 20}, 2), true)
	x := pool.FromF32(kernels.F32, []float32{1, -1}, 1, 1, 2)

	tp := autograd.New(pool, autograd.Options{Train: true})
	y := tp.Linear(tp.Input(x), w, autograd.With{Bias: b})
	fmt.Println(y.F32())
	value, seed := autograd.Dot(y, []float32{1, 2}) // or any float64 code over y.F32()
	tp.Backward(seed)                               // adds to the gradients of parameters
	fmt.Println(value, w.Grad().F32(), b.Grad().F32())
	tp.Reset()
	// Output:
	// [9 19]
	// 47 [1 -1 2 -2] [1 2]
}
