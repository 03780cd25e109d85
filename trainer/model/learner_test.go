package model

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// allocated is the memory that f asks of the heap.
func allocated(f func() error) (bytes uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// TestTensorsInPieces: a checkpoint of a network is written and read a piece of a tensor at a time: no copy of weights,
// averages or other weights lies in memory, and the file has the bytes of tensors that do.
func TestTensorsInPieces(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	const n, room = 5<<20 + 1, 9 << 20 // numbers, and bytes of scratch
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
	path := filepath.Join(t.TempDir(), TensorsFile)
	took, err := allocated(func() error { return safetensors.Write(path, w.Tensors(""), nil) })
	if err != nil || took > room {
		t.Errorf("%d bytes of memory to write numbers of %d bytes: %v", took, 4*4*n, err)
	}
	var whole []safetensors.Tensor
	for _, x := range w.Tensors("") {
		x, err := x.Made()
		if err != nil {
			t.Fatal(err)
		}
		whole = append(whole, x)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := safetensors.Bytes(whole, nil); err != nil || len(whole) < 4 || !bytes.Equal(got, want) {
		t.Errorf("other bytes than of %d tensors in memory: %v", len(whole), err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.Value.UploadF32(make([]float32, n))
	if took, err = allocated(func() error { return w.Load(f, "") }); took > 4*room { // one piece a tensor, one after another
		t.Errorf("%d bytes of memory to read numbers of %d bytes", took, 4*4*n)
	}
	if err != nil || p.Value.F32()[n-1] != n-1 {
		t.Errorf("loaded: %v, %v", p.Value.F32()[n-1], err)
	}
}
