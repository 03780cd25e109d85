package optim

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/portable"
)

// AdamW, update t = 1, 2, ... with gradient g (Loshchilov and Hutter 2019, as in
// torch.optim.AdamW):
//
//	p = p - lr wd p
//	m = b1 m + (1-b1) g
//	v = b2 v + (1-b2) g²
//	p = p - lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps)
//
// eps is outside of the corrected root, and the decay is scaled by lr but not by the gradient's size. The engine's
// kernel computes the same in float32 with the coefficients that Kernel gives.
//
// Invariant (tests): from zero state the first step is lr sign(g), whatever the
// gradient's size, and the kernel stays within float32's rounding of this.
type AdamW struct {
	WeightDecay float64
	Betas       [2]float64
	Eps         float64

	T    int // updates done
	M, V []float64
}

// NewAdamW starts with zero averages for n parameters.
func NewAdamW(o Options, n int) *AdamW {
	return &AdamW{WeightDecay: o.WeightDecay, Betas: o.Betas, Eps: o.Eps, M: make([]float64, n), V: make([]float64, n)}
}

// Step moves params along grads at a learning rate.
func (a *AdamW) Step(params, grads []float64, lr float64) {
	if len(params) != len(a.M) || len(grads) != len(a.M) {
		panic(fmt.Sprintf("optim: %d parameters and %d gradients for the state of %d", len(params), len(grads), len(a.M)))
	}
	a.T++
	step, root := a.correction(a.T, lr)
	b1, b2 := a.Betas[0], a.Betas[1]
	for i, g := range grads {
		a.M[i] += float64((1 - b1) * (g - a.M[i]))
		a.V[i] = float64(b2*a.V[i]) + float64((1-b2)*g*g)
		params[i] -= float64(lr * a.WeightDecay * params[i])
		params[i] -= step * a.M[i] / (float64(math.Sqrt(a.V[i])*root) + a.Eps)
	}
}

// correction undoes the zeros at the beginning of averages of this number of updates.
func (a *AdamW) correction(updates int, lr float64) (step, root float64) {
	t := float64(updates)
	return lr / (1 - portable.Pow(a.Betas[0], t)), 1 / math.Sqrt(1-portable.Pow(a.Betas[1], t))
}

// Kernel counts an update and returns the engine's operands for it, all but the
// spans. The state M and V then lives in those, not in a.
func (a *AdamW) Kernel(lr float64) kernels.AdamW {
	a.T++
	return a.kernel(a.T, lr)
}

// kernel is Kernel of an update by its number, counted from 1.
func (a *AdamW) kernel(update int, lr float64) kernels.AdamW {
	step, root := a.correction(update, lr)
	return kernels.AdamW{
		GradScale: 1, Beta1: a.Betas[0], Beta2: a.Betas[1],
		Rate: float32(lr), Decay: float32(a.WeightDecay), Eps: float32(a.Eps),
		Step: float32(step), RootScale: float32(root),
	}
}
