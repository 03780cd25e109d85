//go:build !nocuda && linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// adaptedLayers are two layers with adapters, one after another, the second with a gate and a residual.
type adaptedLayers struct {
	pool *tensor.Pool
	w    [2]*autograd.Param
	pair [2]autograd.LowRank
}

const adaptedWidth, adaptedRows = 136, 35

func newAdaptedLayers(b kernels.Backend) *adaptedLayers {
	l := &adaptedLayers{pool: tensor.NewPool(b)}
	draw := func(name string, trained bool, shape ...int) *autograd.Param {
		x := make([]float32, shape[0]*shape[1])
		rng.New(7).With(rng.Purpose(name)).Normal(x, 0)
		for i := range x {
			x[i] *= 0.1
		}
		return autograd.NewParam(name, l.pool.FromF32(kernels.F32, x, shape...), trained)
	}
	for i := range l.w {
		l.w[i] = draw(fmt.Sprint("w", i), false, adaptedWidth, adaptedWidth)
		l.pair[i] = autograd.LowRank{A: draw(fmt.Sprint("a", i), true, 16, adaptedWidth), B: draw(fmt.Sprint("b", i), true, adaptedWidth, 16), Scale: 0.75}
	}
	return l
}

// forward is of samples from first on.
func (l *adaptedLayers) forward(tp *autograd.Tape, first, samples int) *autograd.Value {
	x := make([]float32, 3*adaptedRows*adaptedWidth)
	rng.New(8).Normal(x, 0)
	gates := x[:3*adaptedWidth]
	v := tp.Upload("x", x[first*adaptedRows*adaptedWidth:][:samples*adaptedRows*adaptedWidth], samples, adaptedRows, adaptedWidth)
	gate := tp.Upload("gate", gates[first*adaptedWidth:][:samples*adaptedWidth], samples, adaptedWidth)
	p := l.pair
	p[0].X = v
	y := tp.Adapted(v, l.w[0], p[0], autograd.With{})
	p[1].X = y
	return tp.Adapted(y, l.w[1], p[1], autograd.With{Gate: gate, Residual: v})
}

// TestAdaptedOnHopper: layers with adapters have the same bits on a tape that trains and on one that does not, for a
// sample alone and in a batch: the first ratio of an update is 1. Their gradients are near ref's.
func TestAdaptedOnHopper(t *testing.T) {
	double.New(t).Set(13000, 1, 90, 2<<30)
	b, err := cuda.OpenAs(0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	o := autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16}
	train := o
	train.Train = true
	var layers [2]*adaptedLayers
	var grads [2][][]float32
	for i, be := range []kernels.Backend{b, ref.Backend{}} {
		l := newAdaptedLayers(be)
		layers[i] = l
		tp := autograd.New(l.pool, train)
		y := l.forward(tp, 0, 3)
		weights := make([]float32, 3*adaptedRows*adaptedWidth)
		rng.New(9).Normal(weights, 0)
		_, seed := autograd.Dot(y, weights)
		tp.Backward(seed)
		for _, p := range l.pair {
			grads[i] = append(grads[i], p.A.Grad().F32(), p.B.Grad().F32())
		}
		tp.Reset()
	}
	for k, want := range grads[1] {
		var diff, norm float64
		for i, v := range want {
			d := float64(grads[0][k][i] - v)
			diff, norm = diff+d*d, norm+float64(v)*float64(v)
		}
		if off := math.Sqrt(diff / norm); !(off < 0.005) {
			t.Errorf("gradient %d is off by %.2f %%", k, 100*off)
		}
	}
	l := layers[0]
	pass := func(o autograd.Options, first, samples int) []byte {
		tp := autograd.New(l.pool, o)
		defer tp.Reset()
		return l.forward(tp, first, samples).Tensor().Bytes()
	}
	whole := pass(train, 0, 3)
	each := len(whole) / 3
	for i := range 3 {
		if !bytes.Equal(pass(o, i, 1), whole[i*each:(i+1)*each]) {
			t.Errorf("sample %d alone, on a tape that does not train, has other bits", i)
		}
	}
}

// TestTrainOnHopper: adapters that have moved give an update's first ratio of 1 where their products go into the sums
// of others, which the run's folder says.
func TestTrainOnHopper(t *testing.T) {
	if testing.Short() {
		t.Skip("two iterations on a device that is emulated take six seconds")
	}
	double.New(t).Set(13000, 1, 90, 2<<30)
	dir := t.TempDir()
	config, out := filepath.Join(dir, "experiment.toml"), filepath.Join(dir, "run")
	text := `preset = "mixgrpo"
run = { name = "adapters", iterations = 2 }
model = { path = "embed:tiny-sd3", lora = { rank = 32, alpha = 48, targets = ["attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"] } }
sampler = { steps = 2, width = 16, height = 16, guidance = 1, guidance_kind = "cfg", window = { kind = "sliding", size = 1, every = 8, stride = 1, drop = 0, tail = "shift" } }
rollout = { prompts = "embed:scenes", prompts_per_iteration = 1, group = 2 }
loss = { noise_floor = "off" }
reward = [{ name = "jpeg" }]
evaluate = { every = 0 }
optim = { updates = 1, lr = 1e-2 }
`
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := execute(context.Background(), []string{"train", config, "--device", "cuda:0", "--out", out}, nil, &stdout, &stderr); code != exits.Done {
		t.Fatalf("exit code %d\n%s", code, stderr.String())
	}
	for name, want := range map[string]struct {
		text  string
		times int
	}{"ledger.jsonl": {`"ratio_mean":1,"ratio_most":1,`, 2}, "products.json": {`"adapters": "wgmma"`, 1}} {
		b, err := os.ReadFile(filepath.Join(out, name))
		if n := strings.Count(string(b), want.text); err != nil || n != want.times {
			t.Errorf("%s has %s %d times, want %d: %v\n%s", name, want.text, n, want.times, err, b)
		}
	}
}
