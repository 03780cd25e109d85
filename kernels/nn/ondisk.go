package nn

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// OnDisk is the i-th trained parameter with the values x, under the name and in the shape of the disk. The
// values are in the order of the engine, as the parameter's own are. The model may lie on a backend that
// computes nothing; pool lies on one that computes.
func (p *Params) OnDisk(pool *tensor.Pool, i int, x []float32) (safetensors.Tensor, error) {
	for _, e := range p.root.order {
		if !e.param.Trained {
			continue
		}
		if i--; i >= 0 {
			continue
		}
		if n := product(e.param.Shape); n != len(x) {
			return safetensors.Tensor{}, fmt.Errorf("%s: the model has %d numbers, and there are %d", e.name, n, len(x))
		}
		t := pool.FromF32(kernels.F32, x, e.param.Shape...)
		defer t.Free()
		return e.export(e.name, t), nil
	}
	return safetensors.Tensor{}, fmt.Errorf("the model trains fewer parameters than there are weights")
}
