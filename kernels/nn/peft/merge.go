package peft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Merging into stored weights: W + s·B A in fp32, rounded once to the type that W is stored
// in. (package nn merges into what is in memory.)
//
// Invariant (test): a model of merged weights puts out what the model with its adapter does.

// Modules are the layers that the adapter changes.
func (a *Adapter) Modules() []string { return a.modules() }

// Merged is a layer's stored weight with the adapter's product added.
func (a *Adapter) Merged(pool *tensor.Pool, w safetensors.Tensor, module string) (safetensors.Tensor, error) {
	k, err := a.kindOf(module)
	if err != nil {
		return w, fmt.Errorf("%s: %w", a.path, err)
	}
	down, up, err := a.pair(module)
	if err != nil {
		return w, err
	}
	if len(w.Shape) < 2 || w.Shape[0] < 1 {
		return w, fmt.Errorf("%s: a weight of shape %v has no adapter", w.Name, w.Shape)
	}
	out, in := w.Shape[0], w.Len()/w.Shape[0]
	if !slices.Equal(kernel(down.Shape), kernel(w.Shape)) || down.Len() != k.rank*in || up.Shape[0] != out || up.Len() != out*k.rank {
		return w, fmt.Errorf("%s: lora_A of shape %v and lora_B of shape %v do not fit a weight of shape %v", module, down.Shape, up.Shape, w.Shape)
	}
	var parts [3]*tensor.Tensor // W, A, B
	for i, t := range []safetensors.Tensor{w, down, up} {
		x, err := t.Float32(nil)
		if err != nil {
			return w, err
		}
		parts[i] = pool.FromF32(kernels.F32, x, t.Shape[0], t.Len()/t.Shape[0])
		defer parts[i].Free()
	}
	scale := nn.LoRA{Rank: k.rank, Alpha: float32(k.alpha), RSLoRA: a.settings.RSLoRA}.Scale()
	pool.Backend().Gemm(&kernels.Gemm{Layout: kernels.NN, Math: kernels.MathF32, A: parts[2].Mat(), B: parts[1].Mat(), C: parts[0].Mat(), Alpha: scale, Accumulate: true})
	return safetensors.FromFloat32(w.Name, w.DType, w.Shape, parts[0].F32())
}

// kernel is a convolution's size, without that of 1x1: libraries differ on whether such a
// layer is a linear one.
func kernel(shape []int) []int {
	if len(shape) == 4 && shape[2]*shape[3] == 1 {
		return shape[2:2]
	}
	return shape[2:]
}

// pair is a module's two tensors, neither of which is empty.
func (a *Adapter) pair(module string) (down, up safetensors.Tensor, err error) {
	for _, part := range []struct {
		name string
		into *safetensors.Tensor
	}{{".lora_A.weight", &down}, {".lora_B.weight", &up}} {
		if *part.into, err = a.Tensor(module + part.name); err != nil {
			return down, up, err
		}
		if t := *part.into; len(t.Shape) < 2 || t.Len() == 0 {
			return down, up, fmt.Errorf("%s%s: a tensor of shape %v is no half of a pair", module, part.name, t.Shape)
		}
	}
	return down, up, nil
}

// A Fold is an edition.Change: the weights of the layers that an adapter changes, with its products added.
type Fold struct {
	*Adapter
	Pool *tensor.Pool
}

// Names are of the weights.
func (f Fold) Names() []string {
	var all []string
	for _, m := range f.modules() {
		all = append(all, m+".weight")
	}
	return all
}

// Of is a weight with the product added.
func (f Fold) Of(w safetensors.Tensor) (safetensors.Tensor, error) {
	return f.Merged(f.Pool, w, strings.TrimSuffix(w.Name, ".weight"))
}
