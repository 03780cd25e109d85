package autograd

import (
	"fmt"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// FrameParam is a trained weight of a convolution over time.
func (e *env) FrameParam(frames int, s kernels.ConvShape) *Param {
	p := e.Param(frames, s.Out, s.KH, s.KW, s.In)
	p.Conv = s
	return p
}

func TestConvFramesGradients(t *testing.T) {
	same := kernels.ConvShape{In: 2, Out: 3, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
	check(t, "convolution over time and space", func(e *env) *Value {
		return e.ConvFrames(e.Var(4, 3, 2, 2), e.FrameParam(3, same), 1, ConvWith{Bias: e.Param(3), Residual: e.Var(2, 3, 2, 3)})
	})
	alone := kernels.ConvShape{In: 2, Out: 3, KH: 1, KW: 1, Stride: 1}
	check(t, "every other frame", func(e *env) *Value {
		return e.ConvFrames(e.Var(5, 1, 2, 2), e.FrameParam(3, alone), 2, ConvWith{Bias: e.Param(3)})
	})
}

func TestPartGradients(t *testing.T) {
	check(t, "part", func(e *env) *Value {
		x := e.Var(4, 2, 3)
		return e.Mul(e.Part(x, 1, 3), e.Part(x, 2, 4))
	})
}

// frames is a clip and a weight on a backend that computes as ref does.
type frames struct {
	pool *tensor.Pool
	x    []float32
	s    kernels.ConvShape
	w    *Param
}

func newFrames() *frames {
	f := &frames{pool: tensor.NewPool(ref.Backend{}), x: make([]float32, 6*4*3*5)}
	f.s = kernels.ConvShape{In: 5, Out: 4, KH: 3, KW: 3, Stride: 1, Top: 1, Left: 1, Bottom: 1, Right: 1}
	rng.New(3).Normal(f.x, 0)
	w := make([]float32, 3*4*9*5)
	rng.New(4).Normal(w, 0)
	f.w = NewParam("w", f.pool.FromF32(kernels.F32, w, 3, 4, 3, 3, 5), false)
	f.w.Conv = f.s
	return f
}

// run convolves frames lo to hi-1.
func (f *frames) run(o Options, lo, hi, stride int) []float32 {
	tp := New(f.pool, o)
	defer tp.Reset()
	x := tp.Upload("x", f.x[lo*60:hi*60], hi-lo, 4, 3, 5)
	return tp.ConvFrames(x, f.w, stride, ConvWith{Wide: true}).F32()
}

// A clip in chunks, each with the two frames before it, has the bits of the whole clip.
func TestConvFramesChunks(t *testing.T) {
	f := newFrames()
	for _, o := range []Options{{}, {DType: kernels.BF16, Math: kernels.MathBF16}} {
		whole := f.run(o, 0, 6, 1)
		if parts := slices.Concat(f.run(o, 0, 3, 1), f.run(o, 1, 5, 1), f.run(o, 3, 6, 1)); !slices.Equal(whole, parts) {
			t.Errorf("%v: chunks differ from the whole clip", o)
		}
		if some := f.run(o, 0, 6, 2); !slices.Equal(some, slices.Concat(whole[:48], whole[96:144])) {
			t.Errorf("%v: every other frame is not that of stride 1", o)
		}
	}
}

// The values are those of the naive sum.
func TestConvFramesNaive(t *testing.T) {
	f := newFrames()
	got, w := f.run(Options{}, 0, 6, 1), f.w.Value.F32()
	at := func(frame, y, x, c int) float64 {
		if y < 0 || x < 0 || y >= 4 || x >= 3 {
			return 0
		}
		return float64(f.x[((frame*4+y)*3+x)*5+c])
	}
	for i, v := range got {
		o, x, y, frame := i%4, i/4%3, i/12%4, i/48
		sum := 0.0
		for k := range 3 * 9 * 5 {
			c, dx, dy, dt := k%5, k/5%3, k/15%3, k/45
			sum += at(frame+dt, y+dy-1, x+dx-1, c) * float64(w[((dt*4+o)*9+dy*3+dx)*5+c])
		}
		if d := float64(v) - sum; d > 1e-4 || d < -1e-4 {
			t.Fatalf("element %d is %v, the sum %v", i, v, sum)
		}
	}
}

// Packed weights have the bits of those that are read where they lie.
func TestConvFramesPacked(t *testing.T) {
	f := newFrames()
	want := f.run(Options{}, 0, 6, 1)
	var taps []*kernels.Packed
	for i := range 3 {
		w := f.pool.Backend().PackConv(f.w.Value.Span().Slice(i*180, (i+1)*180), f.s, kernels.MathF32)
		w.Conv = f.s
		taps = append(taps, w)
	}
	plain := f.w
	f.w = NewPackedFrames("packed", plain.Shape, f.pool, taps)
	if got := f.run(Options{}, 0, 6, 1); !slices.Equal(got, want) {
		t.Error("a packed weight gives other bits")
	}
	f.w.Free()
	plain.Free()
	if s := f.pool.Stats(); s.Live != 0 {
		t.Errorf("%d tensors were not freed", s.Live)
	}
}

func TestConvFramesShapes(t *testing.T) {
	f := newFrames()
	defer func() {
		if p := fmt.Sprint(recover()); p != "autograd: ConvFrames of x f32[2 4 3 5] with w [3 4 3 3 5]" {
			t.Error(p)
		}
	}()
	f.run(Options{}, 0, 2, 1)
}
