package vae

import (
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Small autoencoders of both generations.
var (
	wan21 = Config{Base: 4, DecoderBase: 4, Latent: 3, Times: []int{1, 2, 2}, Blocks: 1, Halves: []bool{true, true}, In: 3, Out: 3, Patch: 1,
		Mean: []float32{0.1, -0.2, 0.3}, Deviation: []float32{1.5, 2, 0.5}}
	wan22 = Config{Base: 4, DecoderBase: 6, Latent: 3, Times: []int{1, 2, 2}, Blocks: 1, Halves: []bool{false, true}, In: 12, Out: 12, Patch: 2,
		Shortcuts: true, Mean: []float32{0.1, -0.2, 0.3}, Deviation: []float32{1.5, 2, 0.5}}
)

func both(t *testing.T, f func(t *testing.T, c Config)) {
	for name, c := range map[string]Config{"2.1": wan21, "2.2": wan22} {
		t.Run(name, func(t *testing.T) { f(t, c) })
	}
}

func draw(n int) []float32 {
	x := make([]float32, n)
	rng.New(5).Normal(x, 0)
	return x
}

// world is an autoencoder with its backend.
type world struct {
	*Model
	pool   *tensor.Pool
	params *nn.Params
	o      autograd.Options
}

func newWorld(t *testing.T, be kernels.Backend, c Config, o autograd.Options, train ...string) *world {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	w := &world{pool: tensor.NewPool(be), o: o}
	var err error
	if w.params, err = nn.New(nn.Options{Pool: w.pool, Math: o.Math, Key: rng.New(1), Train: train}); err != nil {
		t.Fatal(err)
	}
	w.Model = New(w.params, c)
	if err := w.params.Check(); err != nil {
		t.Fatal(err)
	}
	return w
}

// on gives f a drawn clip of frames of a size, and returns the result's numbers and its gradient at
// the clip.
func (w *world) on(frames, side, channels int, f func(tp *autograd.Tape, x *autograd.Value) *autograd.Value) (y, grad []float32) {
	tp := autograd.New(w.pool, w.o)
	defer tp.Reset()
	x := w.pool.FromF32(w.o.DType, draw(frames*side*side*channels), frames, side, side, channels)
	defer x.Free()
	v := tp.Variable(x)
	out := f(tp, v)
	y = out.F32()
	if w.o.Train {
		tp.Backward(autograd.Seed{Of: out, Grad: draw(len(y))})
		grad = v.Grad().F32()
	}
	return y, grad
}

func (w *world) decoded(frames int) []float32 {
	y, _ := w.on(frames, 2, w.Latent, w.Decode)
	return y
}

func (w *world) encoded(frames int) []float32 {
	y, _ := w.on(frames, 2*w.Factor(), w.Channels(), func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
		mean, _ := w.Encode(tp, x)
		return w.Scaled(tp, mean)
	})
	return y
}

// A later frame changes no earlier one: a beginning has the bits of the whole clip's.
func TestBeginnings(t *testing.T) {
	both(t, func(t *testing.T, c Config) {
		for _, o := range []autograd.Options{{}, {DType: kernels.BF16, Math: kernels.MathBF16}} {
			w := newWorld(t, ref.Backend{}, c, o)
			whole, some := w.decoded(4), w.decoded(2)
			if n := (1 + 3*w.Frames()) * 4 * w.Factor() * w.Factor() * 3; len(whole) != n {
				t.Fatalf("%d numbers were decoded, not %d", len(whole), n)
			}
			if !slices.Equal(whole[:len(some)], some) {
				t.Errorf("%v: the first frames that are decoded depend on later ones", o)
			}
			whole, some = w.encoded(1+2*w.Frames()), w.encoded(1+w.Frames())
			if len(whole) != 3*4*w.Latent || !slices.Equal(whole[:len(some)], some) {
				t.Errorf("%v: the first latents depend on later frames", o)
			}
		}
	})
}

// Blocks that run again give the same gradients at the clip, through all chunks.
func TestCheckpoint(t *testing.T) {
	both(t, func(t *testing.T, c Config) {
		run := func(checkpoint int) (decoded, encoded []float32) {
			w := newWorld(t, ref.Backend{}, c, autograd.Options{Train: true, Checkpoint: checkpoint})
			_, decoded = w.on(3, 2, w.Latent, w.Decode)
			_, encoded = w.on(1+w.Frames(), 2*w.Factor(), w.Channels(), func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
				mean, _ := w.Encode(tp, x)
				return mean
			})
			w.params.Free()
			if s := w.pool.Stats(); s.Live != 0 {
				t.Errorf("%d tensors were not freed", s.Live)
			}
			return decoded, encoded
		}
		d1, e1 := run(0)
		d2, e2 := run(autograd.AllBlocks)
		if !slices.Equal(d1, d2) || !slices.Equal(e1, e2) || slices.Max(d1) == 0 || slices.Max(e1) == 0 {
			t.Error("gradients differ, or are zero")
		}
	})
}

// Memory is that of a chunk: a clip three times as long takes little more than its frames.
func TestMemory(t *testing.T) {
	both(t, func(t *testing.T, c Config) {
		peak := func(frames int) int {
			dry := cpu.NewDry(cpu.Options{})
			w := newWorld(t, dry, c, autograd.Options{})
			dry.ResetPeak()
			before := dry.Peak()
			w.on(frames, 16, w.Latent, w.Decode)
			return dry.Peak() - before
		}
		short, long := peak(3), peak(9)
		pixels := 6 * c.Frames() * 256 * c.Factor() * c.Factor() * 3 * 4
		if long-short > 4*pixels {
			t.Errorf("3 frames of latents take %d bytes, 9 take %d, and the frames between are %d", short, long, pixels)
		}
	})
}

// A frozen decoder, which doubles pictures in phases, computes the same as a trained one.
func TestFrozenAndTrained(t *testing.T) {
	both(t, func(t *testing.T, c Config) {
		frozen, trained := newWorld(t, ref.Backend{}, c, autograd.Options{}).decoded(2), newWorld(t, ref.Backend{}, c, autograd.Options{}, ".*").decoded(2)
		for i, v := range frozen {
			if d := v - trained[i]; d > 1e-4 || d < -1e-4 {
				t.Fatalf("number %d is %v frozen, %v trained", i, v, trained[i])
			}
		}
	})
}

// Weights of attention are stored as convolutions of one pixel, as diffusers has them: its loader takes no other shape.
func TestStoredShapes(t *testing.T) {
	w := newWorld(t, ref.Backend{}, wan21, autograd.Options{}, ".*")
	all, err := w.params.Stored()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range all {
		for _, end := range []string{"to_qkv.weight", "proj.weight"} {
			if strings.HasSuffix(p.Name, end) {
				seen++
				if len(p.Shape) != 4 || p.Shape[2] != 1 || p.Shape[3] != 1 {
					t.Errorf("%s is stored as %v", p.Name, p.Shape)
				}
			}
		}
	}
	if seen != 4 {
		t.Errorf("%d weights of attention, 4 were expected", seen)
	}
}
