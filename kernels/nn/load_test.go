package nn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestStream: a network whose frozen weights are streamed has the bits of one that keeps them, however often it is
// asked, takes the memory of one weight, and shares the values of what is trained.
func TestStream(t *testing.T) {
	const n = 32
	set := folder(t, safetensors.FromF32("up.weight", []int{n, n}, draw(1, n*n)), as(safetensors.FromF32("down.weight", []int{n, n}, draw(2, n*n)), safetensors.BF16),
		safetensors.FromF32("turned", []int{n, n}, draw(3, n*n)), safetensors.FromF32("conv.weight", []int{n, n, 3, 3}, draw(4, 9*n*n)),
		safetensors.FromF32("moved.weight", []int{n, n}, draw(5, n*n)))
	for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
		run := func(lend bool, values map[string]*tensor.Tensor) (p *Params, y []float32, most int) {
			counted := &counting{}
			p = newParams(t, Options{Source: set, Math: m, Home: map[bool]Home{true: Disk}[lend], Values: values, Pool: tensor.NewPool(counted), Train: []string{"moved.*"}})
			layers := []*Linear{p.Linear("up", n, n, false), p.Linear("down", n, n, false), p.LinearAs(Stored{Weight: "turned", In: n, Out: n, Right: true}), p.Linear("moved", n, n, false)}
			c := p.Conv("conv", Square(n, n, 3, 1, 1), false)
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				tp := autograd.New(p.root.Pool, autograd.Options{Math: m})
				x := tp.Upload("x", draw(6, n), 1, 1, 1, n)
				for _, l := range layers {
					x = l.Apply(tp, x, autograd.With{})
				}
				y = append(y, c.Apply(tp, x, nil).F32()...)
				tp.Reset()
			}
			return p, y, counted.packed
		}
		kept, want, all := run(false, nil)
		moved := kept.Trained()[0]
		lent, got, most := run(true, map[string]*tensor.Tensor{"moved.weight": moved.Value})
		if !slices.Equal(got, want) {
			t.Errorf("%s: streamed weights give other bits", m)
		}
		if most >= all || most > 2*9*n*n*4 {
			t.Errorf("%s: packed weights took %d bytes where they are streamed, and %d where they are kept", m, most, all)
		}
		if lent.Trained()[0].Value.Span().Buf != moved.Value.Span().Buf {
			t.Errorf("%s: what is trained has values of its own", m)
		}
		lent.Free()
		if moved.Value.F32(); len(kept.Trained()) != 1 {
			t.Errorf("%s: shared values went with the network that lent them", m)
		}
	}
}

// counting is ref, and the most bytes that packed weights took.
type counting struct {
	ref.Backend
	now, packed int
}

func (c *counting) PackIn(memory *kernels.Buffer, w kernels.Mat, m kernels.Math) *kernels.Packed {
	if memory != nil {
		return c.Backend.PackIn(memory, w, m)
	}
	return c.count(c.Backend.PackIn(nil, w, m))
}

func (c *counting) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	return c.count(c.Backend.PackConv(w, s, m))
}

func (c *counting) count(w *kernels.Packed) *kernels.Packed {
	c.now += w.Buf.Bytes
	c.packed = max(c.packed, c.now)
	return w
}

func (c *counting) Free(b *kernels.Buffer) {
	c.now = max(0, c.now-b.Bytes)
	c.Backend.Free(b)
}

// torn is a source whose reads fail from one of them on, or whose file is cut then.
type torn struct {
	*safetensors.Set
	reads atomic.Int32
	at    atomic.Int32 // 0: none
	cut   func() error // nil: reads fail
}

func (s *torn) Tensor(name string) (safetensors.Tensor, error) {
	if n, at := s.reads.Add(1), s.at.Load(); at > 0 && n >= at {
		if s.cut == nil {
			return safetensors.Tensor{}, io.ErrUnexpectedEOF
		}
		if err := s.cut(); err != nil {
			return safetensors.Tensor{}, err
		}
	}
	return s.Set.Tensor(name)
}

// TestUnread: reads that fail in the middle of a block, and a file that is cut then, or in a load, are a device's error
// with the tensor, the file, its bytes and their place. With the whole file the same network computes the same numbers.
func TestUnread(t *testing.T) {
	const blocks, each = 4, 3
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	var all []safetensors.Tensor
	for i := range blocks * each {
		x := make([]float32, 64*64)
		rng.New(7).With(rng.Purpose(fmt.Sprint(i))).Normal(x, 0)
		all = append(all, safetensors.FromF32(fmt.Sprintf("%d.weight", i), []int{64, 64}, x))
	}
	if err := safetensors.Write(path, all, nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	ring := &autograd.Ring{}
	load := func(s *torn, home Home) (layers []*Linear, err error) {
		defer kernels.Recover(&err)
		p, err := New(Options{Pool: pool, Source: s, Home: home, Ring: ring})
		if err != nil {
			return nil, err
		}
		for i := range blocks * each {
			layers = append(layers, p.Linear(fmt.Sprint(i), 64, 64, false))
		}
		return layers, p.Check()
	}
	pass := func(layers []*Linear) (out []float32, err error) {
		defer kernels.Recover(&err)
		tp := autograd.New(pool, autograd.Options{DType: kernels.F32, Train: true, Checkpoint: autograd.AllBlocks})
		defer tp.Reset()
		x := make([]float32, 2*64)
		rng.New(9).Normal(x, 0)
		v := pool.FromF32(kernels.F32, x, 1, 2, 64)
		defer v.Free()
		in := tp.Variable(v)
		h := in
		for b := range blocks {
			h = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
				y := in[0]
				for k := range each {
					y = tp.Norm(layers[b*each+k].Apply(tp, y, autograd.With{}), autograd.NormWith{Kind: kernels.RMSNorm, Eps: 1e-6})
				}
				return []*autograd.Value{y}
			}, h)[0]
		}
		tp.Backward(autograd.Seed{Of: h, Grad: x})
		return in.Grad().F32(), nil
	}
	says := func(what string, err error) {
		t.Helper()
		var failed kernels.DeviceError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), path+", 16384 bytes from ") || !strings.Contains(err.Error(), ".weight") || !strings.Contains(err.Error(), "hint:") {
			t.Errorf("%s: %v", what, err)
		}
	}
	cut := func() error { return os.Truncate(path, 0) }
	s := &torn{Set: set}
	layers, err := load(s, Disk)
	if err != nil {
		t.Fatal(err)
	}
	var want []float32
	for range 2 {
		if want, err = pass(layers); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []int32{2, 8, 14} { // in the first block, while others are passed, in the pass back
		for what, cut := range map[string]func() error{"reads fail": nil, "a file is cut": cut} {
			s.cut = cut
			s.at.Store(s.reads.Load() + after)
			_, err := pass(layers)
			says(fmt.Sprintf("%s at read %d", what, after), err)
			ring.Rest() // ends reads under way
			if s.at.Store(0); os.WriteFile(path, data, 0o644) != nil {
				t.Fatal("the file cannot be written")
			}
			if got, err := pass(layers); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s at read %d: afterwards there are other numbers, %v", what, after, err)
			}
		}
	}
	s.cut = cut
	s.at.Store(s.reads.Load() + each)
	_, err = load(s, Device)
	says("a file is cut while a network is loaded", err)
}
