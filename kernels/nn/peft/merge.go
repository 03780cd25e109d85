package peft

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Pairs are the adapter's pairs as a model takes them: one entry for each rank and alpha, with its layers.
func (a *Adapter) Pairs() ([]nn.LoRA, error) {
	groups := map[kind][]string{}
	var order []kind
	for _, m := range a.modules() {
		k, err := a.kindOf(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.path, err)
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], regexp.QuoteMeta(m))
	}
	var all []nn.LoRA
	for _, k := range order {
		all = append(all, nn.LoRA{Rank: k.rank, Alpha: float32(k.alpha), RSLoRA: a.settings.RSLoRA, Dropout: float32(a.settings.Dropout), Pattern: strings.Join(groups[k], "|")})
	}
	return all, nil
}

// Put puts pairs on a model. They are one adapter.
func Put(p *nn.Params, pairs []nn.LoRA) (*nn.Adapters, error) {
	var set *nn.Adapters
	for _, l := range pairs {
		s, err := p.AddLoRA(l)
		if err != nil {
			return nil, err
		}
		if set == nil {
			set = s
		} else {
			set.Join(s)
		}
	}
	return set, nil
}

// AddTo puts the adapter on a model and loads it. Every pair of the file must find its layer.
func (a *Adapter) AddTo(p *nn.Params) (*nn.Adapters, error) {
	layers := p.Layers()
	for _, m := range a.modules() {
		if !slices.Contains(layers, m) {
			return nil, fmt.Errorf("%s: %s: the model has no such layer", a.path, m)
		}
	}
	pairs, err := a.Pairs()
	if err != nil {
		return nil, err
	}
	set, err := Put(p, pairs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	if err := set.Load(a, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	return set, nil
}

// NoDropout leaves the file's dropout out.
func (a *Adapter) NoDropout() { a.settings.Dropout = 0 }

// Settings say every layer's rank and alpha: those of most layers, and a pattern for each of the others.
func (a *Adapter) Settings() (Settings, error) {
	_, s, err := a.whole("")
	return s, err
}

// Merging into stored weights: W + s·B A in fp32, rounded once to the type that W is stored in. (package nn merges
// into weights in memory.)
//
// Invariant (test): a model of merged weights has the outputs of the model with its adapter.

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
	Lost *Lost // optional: where weights were compressed
}

// A Lost is the share of an adapter that rounding loses, where compressed weights become plain ones.
type Lost struct {
	Matrices         int
	changed, rounded float64
}

// Share is the root of the mean square of the loss, over that of the adapter's products.
func (l *Lost) Share() float64 {
	if l.changed == 0 {
		return 0
	}
	return math.Sqrt(l.rounded / l.changed)
}

// Rounded implements edition.Counter.
func (f Fold) Rounded(changed, lost float64) {
	if f.Lost != nil {
		f.Lost.Matrices++
		f.Lost.changed, f.Lost.rounded = f.Lost.changed+changed, f.Lost.rounded+lost
	}
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
