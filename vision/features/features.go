// Package features runs networks that turn pictures into vectors, which scores are made of:
// in batches, and backwards, from gradients at the vectors to gradients at the pictures.
//
//	d := features.On(pool, features.F32)
//	t := &features.Tower{Device: d, Prepare: vision.CLIPPillow(224), Forward: network, Width: 768}
//	vectors, err := t.Images(ctx, pictures)
//	grads, err := t.PullPixels(ctx, pixels, func(from int, v [][]float64) ([][]float64, error) { ... })
//
// Device says where and how exactly a Tower computes, processor.go reads a folder's preprocessing. Packages clip and
// dino have the networks.
//
// Vectors are float64 on the host: they are small, and later values are computed once, the same way with and without
// gradients. Prepared pictures are [Size, Size, 3], channels last.
package features

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
)

// Precision is the precision of networks.
type Precision int

// The precisions. In BF16 the operands of products and the activations are bf16.
const (
	F32 Precision = iota
	BF16
)

// A Device is memory and the backend that computes in it. Networks that share one may be asked from any goroutine:
// they wait for each other.
type Device struct {
	pool      *tensor.Pool
	precision Precision
	turn      *sync.Mutex
}

// On is a device over memory that nothing else uses meanwhile.
func On(pool *tensor.Pool, p Precision) *Device { return &Device{pool, p, new(sync.Mutex)} }

// With is the device in another precision: networks of both share the memory, and wait for each other.
func (d *Device) With(p Precision) *Device { return &Device{d.pool, p, d.turn} }

func (d *Device) math() kernels.Math {
	return [...]kernels.Math{F32: kernels.MathF32, BF16: kernels.MathBF16}[d.precision]
}

func (d *Device) dtype() kernels.DType {
	return [...]kernels.DType{F32: kernels.F32, BF16: kernels.BF16}[d.precision]
}

// Load hands parameters of a source to a network that build makes, all of them frozen, and reports missing, misshapen
// and unused ones.
func (d *Device) Load(src nn.Source, build func(p *nn.Params)) (*nn.Params, error) {
	d.turn.Lock()
	defer d.turn.Unlock()
	p, err := nn.New(nn.Options{Pool: d.pool, Math: d.math(), Source: src})
	if err != nil {
		return nil, err
	}
	build(p)
	if err := p.Check(); err != nil {
		p.Free()
		return nil, err
	}
	return p, nil
}

// Free gives a network's memory back.
func (d *Device) Free(p *nn.Params) {
	d.turn.Lock()
	defer d.turn.Unlock()
	p.Free()
	d.pool.Trim()
}

// Run computes something on a tape that is thrown away afterwards.
func (d *Device) Run(train bool, f func(tp *autograd.Tape)) {
	d.turn.Lock()
	defer d.turn.Unlock()
	tp := autograd.New(d.pool, autograd.Options{DType: d.dtype(), Math: d.math(), Train: train})
	defer tp.Reset()
	f(tp)
}

// Rows are a value's rows on the host.
func Rows(v *autograd.Value) [][]float64 {
	cols := v.Dim(-1)
	var rows [][]float64
	for x := v.F32(); len(x) >= cols && cols > 0; x = x[cols:] {
		row := make([]float64, cols)
		for i := range row {
			row[i] = float64(x[i])
		}
		rows = append(rows, row)
	}
	return rows
}

// A Tower turns pictures into vectors.
type Tower struct {
	*Device
	// Prepare is the preprocessing of pictures of bytes; Soft to pictures of numbers, whose gradient is wanted. Both
	// have the size that Forward reads.
	Prepare, Soft vision.Preprocess
	Batch         int // pictures at once; 0: 8
	// Forward is the network: [B, Size, Size, 3] to [B, Width].
	Forward func(tp *autograd.Tape, x *autograd.Value) *autograd.Value
	Width   int
}

// usualBatch is large enough that weights are read seldom, and small enough that a large
// tower's activations fit beside a generator.
const usualBatch = 8

func (t *Tower) batch() int {
	if t.Batch > 0 {
		return t.Batch
	}
	return usualBatch
}

// An At returns the derivatives of a score with respect to the vectors of a batch whose first picture is number from:
// a row of derivatives a vector.
type At = func(from int, vectors [][]float64) ([][]float64, error)

// Images are pictures' vectors.
func (t *Tower) Images(ctx context.Context, pictures []*vision.Image) ([][]float64, error) {
	return t.each(ctx, len(pictures), func(i int) ([]float32, error) {
		m := pictures[i]
		if m == nil || m.Width < 1 || m.Height < 1 || len(m.Pix) != 3*m.Width*m.Height {
			return nil, errors.New("there is no picture")
		}
		return t.Prepare.Apply(nil, m, vision.ChannelsLast)
	}, nil)
}

// Vectors are the vectors of prepared pictures.
func (t *Tower) Vectors(ctx context.Context, prepared [][]float32) ([][]float64, error) {
	return t.each(ctx, len(prepared), func(i int) ([]float32, error) { return prepared[i], nil }, nil)
}

// Pull takes derivatives at vectors back to prepared pictures.
func (t *Tower) Pull(ctx context.Context, prepared [][]float32, at At) ([][]float32, error) {
	grads := make([][]float32, len(prepared))
	_, err := t.each(ctx, len(prepared), func(i int) ([]float32, error) { return prepared[i], nil },
		&pull{at, func(i int, g []float32) { grads[i] = g }})
	return grads, err
}

// PullPixels takes derivatives at vectors back to pictures, through Soft.
func (t *Tower) PullPixels(ctx context.Context, pictures []vision.Pixels, at At) ([][]float32, error) {
	pipes, grads := make([]*vision.Soft, len(pictures)), make([][]float32, len(pictures))
	_, err := t.each(ctx, len(pictures), func(i int) (x []float32, err error) {
		if pipes[i], err = t.Soft.Soft(pictures[i].Width, pictures[i].Height); err != nil {
			return nil, err
		}
		return pipes[i].Forward(pictures[i])
	}, &pull{at, func(i int, g []float32) { grads[i], pipes[i] = pipes[i].Backward(g), nil }})
	return grads, err
}

// Pixels are the vectors of pictures of numbers, through Soft.
func (t *Tower) Pixels(ctx context.Context, pictures []vision.Pixels) ([][]float64, error) {
	return t.each(ctx, len(pictures), func(i int) ([]float32, error) {
		s, err := t.Soft.Soft(pictures[i].Width, pictures[i].Height)
		if err != nil {
			return nil, err
		}
		return s.Forward(pictures[i])
	}, nil)
}

// pull is the way back.
type pull struct {
	at   At
	take func(i int, g []float32)
}

// each runs the network over pictures, a batch at a time.
func (t *Tower) each(ctx context.Context, n int, picture func(i int) ([]float32, error), back *pull) ([][]float64, error) {
	side := t.Prepare.Size
	size := 3 * side * side
	var all [][]float64
	for from := 0; from < n; from += t.batch() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := min(t.batch(), n-from)
		x := make([]float32, 0, b*size)
		for i := range b {
			one, err := picture(from + i)
			if err == nil && len(one) != size {
				err = fmt.Errorf("%d numbers for a tower of %d x %d", len(one), side, side)
			}
			if err != nil {
				return nil, fmt.Errorf("picture %d: %w", from+i, err)
			}
			x = append(x, one...)
		}
		vectors, err := t.one(x, b, from, back)
		if err != nil {
			return nil, err
		}
		all = append(all, vectors...)
	}
	return all, nil
}

// one runs the network over a batch.
func (t *Tower) one(x []float32, b, from int, back *pull) (vectors [][]float64, err error) {
	side := t.Prepare.Size
	t.Run(back != nil, func(tp *autograd.Tape) {
		m := tp.Pool().FromF32(tp.DType, x, b, side, side, 3)
		defer m.Free()
		in := tp.Input(m)
		if back != nil {
			in = tp.Variable(m)
		}
		out := t.Forward(tp, in)
		vectors = Rows(out)
		if err = finite(vectors, from); err != nil || back == nil {
			return
		}
		var d [][]float64
		if d, err = back.at(from, vectors); err != nil {
			return
		}
		seed := make([]float32, 0, b*t.Width)
		for _, row := range d {
			for _, v := range row {
				seed = append(seed, float32(v))
			}
		}
		if len(seed) != b*t.Width {
			err = fmt.Errorf("%d derivatives at %d vectors of %d", len(seed), b, t.Width)
			return
		}
		tp.Backward(autograd.Seed{Of: out, Grad: seed})
		g := make([]float32, b*3*side*side)
		if in.Grad() != nil {
			g = in.Grad().F32()
		}
		for i := range b {
			back.take(from+i, g[i*3*side*side:(i+1)*3*side*side])
		}
	})
	return vectors, err
}

// finite refuses vectors that no score can be made of.
func finite(vectors [][]float64, from int) error {
	for i, v := range vectors {
		for _, x := range v {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("picture %d: the network gives numbers that are not finite; its weights may be damaged", from+i)
			}
		}
	}
	return nil
}
