package model

import (
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// TestTensorsOneByOne: a checkpoint of a network is written a tensor at a time: until then no copy of weights,
// averages or other weights lies in memory; and it can be loaded.
func TestTensorsOneByOne(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	const n = 1000
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	p := autograd.NewParam("w", pool.FromF32(kernels.F32, x, n), true)
	w, err := NewLearner(optim.Defaults(), []trainer.Weights{trainer.Old}, Place{}, Part{Params: []*autograd.Param{p}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Free()
	all, held := w.Tensors(""), 0
	for _, x := range all {
		held += len(x.Data)
	}
	if len(all) < 4 || held >= 4*n {
		t.Errorf("%d tensors hold %d bytes before they are written; one has %d", len(all), held, 4*n)
	}
	path := filepath.Join(t.TempDir(), TensorsFile)
	if err := safetensors.Write(path, all, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.Value.UploadF32(make([]float32, n))
	if err := w.Load(f, ""); err != nil || p.Value.F32()[n-1] != n-1 {
		t.Errorf("loaded: %v, %v", p.Value.F32()[n-1], err)
	}
}
