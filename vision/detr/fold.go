package detr

import (
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// normEps is that of batch norms.
const normEps = 1e-5

// Folded is FoldedBy for the names of the hub's detectors: convolution and normalization, conv and norm, 0 and 1.
func Folded(src nn.Source) nn.Source {
	return FoldedBy(src, func(norm string) string {
		at := strings.LastIndexByte(norm, '.')
		return norm[:at+1] + map[string]string{"normalization": "convolution", "norm": "conv", "1": "0"}[norm[at+1:]]
	})
}

// FoldedBy is a source whose layers hold the batch norms after them, with the statistics of training: layer.weight is
// scaled, channel by channel, layer.bias is new or changed, and the norm's tensors are gone. Function layer names the
// layer before a norm. A norm whose layer is not there stays as it is.
func FoldedBy(src nn.Source, layer func(norm string) string) nn.Source {
	f := folded{Source: src, norms: map[string]string{}}
	has := map[string]bool{}
	for _, name := range src.Names() {
		has[name] = true
	}
	gone := map[string]bool{}
	for _, name := range src.Names() {
		norm, ok := strings.CutSuffix(name, ".running_mean")
		if !ok {
			continue
		}
		conv := layer(norm)
		if !has[conv+".weight"] {
			continue
		}
		f.norms[conv] = norm
		for _, end := range []string{".weight", ".bias", ".running_mean", ".running_var", ".num_batches_tracked"} {
			gone[norm+end] = true
		}
	}
	for _, name := range src.Names() {
		if !gone[name] {
			f.names = append(f.names, name)
		}
	}
	for conv := range f.norms {
		if !has[conv+".bias"] {
			f.names = append(f.names, conv+".bias")
		}
	}
	f.has = has
	return f
}

type folded struct {
	nn.Source
	names []string
	has   map[string]bool   // stored names
	norms map[string]string // of layers
}

func (f folded) Names() []string { return f.names }

func (f folded) Tensor(name string) (safetensors.Tensor, error) {
	at := strings.LastIndexByte(name, '.')
	norm, ok := f.norms[name[:max(at, 0)]]
	if !ok {
		return f.Source.Tensor(name)
	}
	parts := map[string][]float32{}
	for _, end := range []string{"weight", "bias", "running_mean", "running_var"} {
		t, err := f.Source.Tensor(norm + "." + end)
		if err != nil {
			return t, err
		}
		if parts[end], err = t.Float32(nil); err != nil {
			return t, err
		}
	}
	n := len(parts["weight"])
	if len(parts["bias"]) != n || len(parts["running_mean"]) != n || len(parts["running_var"]) != n {
		return safetensors.Tensor{}, &safetensors.Error{Tensor: norm, Problem: "its parts have different lengths"}
	}
	scale := func(i int) float64 {
		return float64(parts["weight"][i]) / math.Sqrt(float64(parts["running_var"][i])+normEps)
	}
	if name[at+1:] == "bias" {
		out, own := make([]float32, n), make([]float32, n)
		if f.has[name] {
			t, err := f.Source.Tensor(name)
			if err != nil {
				return t, err
			}
			if own, err = t.Float32(nil); err == nil && len(own) != n {
				err = &safetensors.Error{Tensor: name, Problem: "its norm has another number of channels"}
			}
			if err != nil {
				return t, err
			}
		}
		for i := range out {
			out[i] = float32(float64(parts["bias"][i]) - float64((float64(parts["running_mean"][i])-float64(own[i]))*scale(i)))
		}
		return safetensors.FromF32(name, []int{n}, out), nil
	}
	t, err := f.Source.Tensor(name)
	if err != nil {
		return t, err
	}
	w, err := t.Float32(nil)
	if err == nil && (len(t.Shape) == 0 || t.Shape[0] != n) {
		err = &safetensors.Error{Tensor: name, Problem: "its norm has another number of channels"}
	}
	if err != nil {
		return t, err
	}
	out, each := make([]float32, len(w)), len(w)/max(n, 1)
	for i, v := range w {
		out[i] = float32(float64(v) * scale(i/each))
	}
	return safetensors.FromF32(name, t.Shape, out), nil
}
