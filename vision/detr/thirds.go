package detr

import (
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Thirds is a source whose tensors of queries, keys and values in one (torch's MultiheadAttention) are three:
// PREFIXweight of "in_proj_weight" is q_proj.weight, k_proj.weight and v_proj.weight beside it.
func Thirds(src nn.Source, ends ...string) nn.Source {
	t := thirds{Source: src, of: map[string]third{}}
	for _, name := range src.Names() {
		cut := ""
		for _, end := range ends {
			if strings.HasSuffix(name, end) {
				cut = end
			}
		}
		if cut == "" {
			t.names = append(t.names, name)
			continue
		}
		what := cut[strings.LastIndexAny(cut, "_.")+1:]
		for i, part := range []string{"q", "k", "v"} {
			now := strings.TrimSuffix(name, cut) + part + "_proj." + what
			t.names, t.of[now] = append(t.names, now), third{name, i}
		}
	}
	return t
}

type thirds struct {
	nn.Source
	names []string
	of    map[string]third
}

type third struct {
	name string
	i    int
}

func (t thirds) Names() []string { return t.names }

func (t thirds) Tensor(name string) (safetensors.Tensor, error) {
	of, ok := t.of[name]
	if !ok {
		return t.Source.Tensor(name)
	}
	whole, err := t.Source.Tensor(of.name)
	if err != nil {
		return whole, err
	}
	n := whole.Shape[0] / 3
	part, err := whole.Rows(of.i*n, (of.i+1)*n)
	part.Name = name
	return part, err
}
