package autograd

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// layer is a block of a diffusion transformer: norms modulated by the condition, gated
// residuals, attention with norms of heads, an MLP.
type layer struct {
	mod, modBias, q, k, v, qNorm, out, up, upBias, down *Param
	upA, upB                                            *Param // LoRA on up, if trained
}

const (
	width = 8
	heads = 2
)

func (l *layer) run(tp *Tape, x, condition *Value) *Value {
	outs := tp.Block(func(in ...*Value) []*Value {
		x, condition := in[0], in[1]
		m := tp.Chunk(tp.Linear(tp.Unary(kernels.SiLU, condition), l.mod, With{Bias: l.modBias}), 6)
		h := tp.Norm(x, NormWith{Scale: m[0], Shift: m[1], Eps: 1e-6})
		head := func(w *Param) *Value {
			y := tp.Linear(h, w, With{})
			n := tp.Norm(tp.Reshape(y, x.Dim(0), x.Dim(1), heads, width/heads), NormWith{Kind: kernels.RMSNorm, Weight: l.qNorm, Eps: 1e-6})
			return tp.Reshape(n, x.Dim(0), x.Dim(1), width)
		}
		a := tp.Attention(head(l.q), head(l.k), tp.Linear(h, l.v, With{}), Attend{Heads: heads})
		y := tp.Linear(a, l.out, With{Gate: m[2], Residual: x})
		tp.Release(h, a)
		h = tp.Dropout(tp.Norm(y, NormWith{Scale: m[3], Shift: m[4], Eps: 1e-6}), 0.1, "mlp")
		o := With{Bias: l.upBias, Act: kernels.GELUTanh}
		if l.upA != nil {
			t := tp.Linear(tp.Linear(h, l.upA, With{}), l.upB, With{Alpha: 2, Wide: true})
			h = tp.Unary(kernels.GELUTanh, tp.Linear(h, l.up, With{Bias: l.upBias, Residual: t, Wide: true}))
		} else {
			h = tp.Linear(h, l.up, o)
		}
		return []*Value{tp.Linear(h, l.down, With{Gate: m[5], Residual: y})}
	}, x, condition)
	return outs[0]
}

// model is a stack of layers with the same numbers every time.
type model struct {
	pool   *tensor.Pool
	layers []*layer
	params []*Param
}

// newModel trains everything, or LoRA on one layer's up where lora >= 0.
func newModel(be kernels.Backend, depth, lora int) *model {
	m := &model{pool: tensor.NewPool(be)}
	p := func(trained bool, shape ...int) *Param {
		n := 1
		for _, d := range shape {
			n *= d
		}
		x := make([]float32, n)
		rng.New(9).Step(len(m.params)).Normal(x, 0)
		for i := range x {
			x[i] *= 0.4
		}
		w := NewParam(fmt.Sprint("w", len(m.params)), m.pool.FromF32(kernels.F32, x, shape...), trained)
		m.params = append(m.params, w)
		return w
	}
	full := lora < 0
	for i := range depth {
		l := &layer{mod: p(full, 6*width, width), modBias: p(full, 6*width), q: p(full, width, width), k: p(full, width, width),
			v: p(full, width, width), qNorm: p(full, width/heads), out: p(full, width, width),
			up: p(full, 2*width, width), upBias: p(full, 2*width), down: p(full, width, 2*width)}
		if i == lora {
			l.upA, l.upB = p(true, 2, width), p(true, 2*width, 2)
		}
		m.layers = append(m.layers, l)
	}
	return m
}

// forward runs samples lo to hi-1 of the fixed batch.
func (m *model) forward(tp *Tape, lo, hi int) *Value {
	const tokens = 3
	x, c := make([]float32, 8*tokens*width), make([]float32, 8*width)
	rng.New(1).Normal(x, 0)
	rng.New(2).Normal(c, 0)
	tp.Keys = nil
	for s := lo; s < hi; s++ {
		tp.Keys = append(tp.Keys, rng.New(3).Sample(s))
	}
	h := tp.Upload("x", x[lo*tokens*width:hi*tokens*width], hi-lo, tokens, width)
	condition := tp.Upload("condition", c[lo*width:hi*width], hi-lo, width)
	for _, l := range m.layers {
		h = l.run(tp, h, condition)
	}
	return h
}

// seed is a gradient that depends on a sample's number alone.
func seedOf(y *Value, lo int) Seed {
	all := make([]float32, 8*y.t.Len()/y.Dim(0))
	rng.New(4).Normal(all, 0)
	each := y.t.Len() / y.Dim(0)
	return Seed{Of: y, Grad: all[lo*each : lo*each+y.t.Len()]}
}

// step is the outputs and gradients of 8 samples in micro-batches, as bytes.
func (m *model) step(tp *Tape, micro int) (outs, grads []byte) {
	for lo := 0; lo < 8; lo += micro {
		y := m.forward(tp, lo, min(8, lo+micro))
		outs = append(outs, y.t.Bytes()...)
		tp.Backward(seedOf(y, lo))
		tp.Reset()
	}
	for _, p := range m.params {
		if g := p.Grad(); g != nil {
			grads = append(grads, g.Bytes()...)
		}
		p.ZeroGrad()
	}
	return outs, grads
}

var precisions = []Options{{Train: true}, {Train: true, DType: kernels.BF16, Math: kernels.MathBF16}}

// TestMicroBatchesAndCheckpointsChangeNothing compares bytes of outputs and gradients.
func TestMicroBatchesAndCheckpointsChangeNothing(t *testing.T) {
	for _, o := range precisions {
		for _, lora := range []int{-1, 1} {
			m := newModel(ref.Backend{}, 4, lora)
			outs, grads := m.step(New(m.pool, o), 8)
			if len(grads) == 0 || bytes.Equal(grads, make([]byte, len(grads))) {
				t.Fatal("no gradients")
			}
			o.Checkpoint = AllBlocks
			some := o
			some.Checkpoint = 2
			for _, c := range []struct {
				o     Options
				micro int
			}{{o, 8}, {o, 3}, {some, 8}, {some, 3}, {Options{Train: true, DType: o.DType, Math: o.Math}, 1}, {Options{Train: true, DType: o.DType, Math: o.Math}, 3}} {
				gotOuts, gotGrads := m.step(New(m.pool, c.o), c.micro)
				if !bytes.Equal(outs, gotOuts) {
					t.Errorf("%s, LoRA %d: micro-batches of %d, checkpoint %d: other outputs", o.DType, lora, c.micro, c.o.Checkpoint)
				}
				if !bytes.Equal(grads, gotGrads) {
					t.Errorf("%s, LoRA %d: micro-batches of %d, checkpoint %d: other gradients", o.DType, lora, c.micro, c.o.Checkpoint)
				}
			}
		}
	}
}

// TestEach: samples that go through one by one have the bytes of a batch, in passes of any size, also where a parameter
// is used more than once.
func TestEach(t *testing.T) {
	for _, lora := range []int{-1, 1} {
		m := newModel(ref.Backend{}, 2, lora)
		m.layers[1] = m.layers[0] // used twice
		if lora == 1 {
			m.layers[0].upA, m.layers[0].upB = m.params[len(m.params)-2], m.params[len(m.params)-1]
		}
		outs, grads := m.step(New(m.pool, Options{Train: true}), 8)
		if len(grads) == 0 || bytes.Equal(grads, make([]byte, len(grads))) {
			t.Fatal("no gradients")
		}
		for _, micro := range []int{8, 3, 1} {
			for _, checkpoint := range []int{0, 1, AllBlocks} {
				tp := New(m.pool, Options{Train: true, Checkpoint: checkpoint})
				var gotOuts, gotGrads []byte
				for lo := 0; lo < 8; lo += micro {
					tp.Keys = nil
					for s := lo; s < min(8, lo+micro); s++ {
						tp.Keys = append(tp.Keys, rng.New(3).Sample(s))
					}
					y := tp.Concat(0, tp.Each(min(micro, 8-lo), func(i int) *Value { return m.forward(tp, lo+i, lo+i+1) })...)
					gotOuts = append(gotOuts, y.t.Bytes()...)
					tp.Backward(seedOf(y, lo))
					tp.Reset()
				}
				for _, p := range m.params {
					if g := p.Grad(); g != nil {
						gotGrads = append(gotGrads, g.Bytes()...)
					}
					p.ZeroGrad()
				}
				if !bytes.Equal(outs, gotOuts) || !bytes.Equal(grads, gotGrads) {
					t.Errorf("LoRA %d, passes of %d, checkpoint %d: outputs equal %t, gradients equal %t", lora, micro, checkpoint, bytes.Equal(outs, gotOuts), bytes.Equal(grads, gotGrads))
				}
			}
		}
	}
}

// TestModelGradients holds gradients of a four-layer model to finite differences: of each
// parameter, along a random direction.
func TestModelGradients(t *testing.T) {
	for _, lora := range []int{-1, 2} {
		m := newModel(ref.Backend{}, 4, lora)
		tp := New(m.pool, f32)
		loss := func() (float64, Seed) {
			y := m.forward(tp, 0, 2)
			return Dot(y, seedOf(y, 0).Grad)
		}
		_, seed := loss()
		tp.Backward(seed)
		tp.Reset()
		for k, p := range m.params {
			if !p.Trained {
				continue
			}
			x, direction := p.Value.F32(), make([]float32, p.Value.Len())
			rng.New(8).Step(k).Normal(direction, 0)
			got, size := 0.0, 0.0
			for i, g := range p.Grad().F32() {
				got += float64(g) * float64(direction[i])
				size += float64(direction[i]) * float64(direction[i])
			}
			at := func(h float64) float64 {
				y := slices.Clone(x)
				for i := range y {
					y[i] += float32(h * float64(direction[i]))
				}
				p.Value.UploadF32(y)
				v, _ := loss()
				tp.Reset()
				return v
			}
			h := 0.004 / math.Sqrt(size)
			want := (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
			p.Value.UploadF32(x)
			if math.Abs(got-want) > 0.01*(math.Sqrt(size)+math.Abs(want)) {
				t.Errorf("LoRA %d: %s %v: %v along a direction, finite differences give %v", lora, p.Name, p.Shape, got, want)
			}
		}
	}
}

func TestOneWeightUsedTwiceInMicroBatches(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	x := make([]float32, 8*4)
	rng.New(1).Normal(x, 0)
	w := NewParam("w", pool.FromF32(kernels.F32, x[:16], 4, 4), true)
	var first []byte
	for _, micro := range []int{8, 3, 1} {
		tp := New(pool, f32)
		for lo := 0; lo < 8; lo += micro {
			hi := min(8, lo+micro)
			y := tp.Linear(tp.Linear(tp.Upload("x", x[lo*4:hi*4], hi-lo, 4), w, With{Act: kernels.SiLU}), w, With{})
			_, seed := Sum(y)
			tp.Backward(seed)
			tp.Reset()
		}
		g := w.Grad().Bytes()
		w.ZeroGrad()
		if first == nil {
			first = g
		} else if !bytes.Equal(g, first) {
			t.Errorf("micro-batches of %d: other gradients", micro)
		}
	}
}

// TestInferenceIsTheSameForward compares an inference tape with a training one.
func TestInferenceIsTheSameForward(t *testing.T) {
	for _, o := range precisions {
		m := newModel(ref.Backend{}, 2, 0)
		for _, l := range m.layers {
			l.upA, l.upB = m.layers[0].upA, m.layers[0].upB
		}
		train := New(m.pool, o)
		train.Keys = nil
		want := m.forwardNoDropout(train)
		wantPeak := m.pool.Stats().Peak
		train.Reset()
		o.Train = false
		m.pool.ResetPeak()
		infer := New(m.pool, o)
		if got := m.forwardNoDropout(infer); !bytes.Equal(got, want) {
			t.Errorf("%s: inference gives other bits than training", o.DType)
		}
		infer.Reset()
		if peak := m.pool.Stats().Peak; peak >= wantPeak {
			t.Errorf("%s: inference takes %d bytes, training %d", o.DType, peak, wantPeak)
		}
	}
}

// forwardNoDropout runs two samples through layers whose dropout is off, by using what
// inference does on both tapes.
func (m *model) forwardNoDropout(tp *Tape) []byte {
	x := make([]float32, 2*3*width)
	rng.New(1).Normal(x, 0)
	h, c := tp.Upload("x", x, 2, 3, width), tp.Upload("c", x[:2*width], 2, width)
	for _, l := range m.layers {
		outs := tp.Block(func(in ...*Value) []*Value {
			h := in[0]
			mod := tp.Chunk(tp.Linear(c, l.mod, With{Bias: l.modBias}), 6)
			n := tp.Norm(h, NormWith{Scale: mod[0], Shift: mod[1], Eps: 1e-6})
			a := tp.Attention(tp.Linear(n, l.q, With{}), tp.Linear(n, l.k, With{}), tp.Linear(n, l.v, With{}), Attend{Heads: heads})
			y := tp.Linear(a, l.out, With{Gate: mod[2], Residual: h})
			t := tp.Linear(tp.Linear(y, l.upA, With{}), l.upB, With{Wide: true})
			u := tp.Unary(kernels.SiLU, tp.Linear(y, l.up, With{Bias: l.upBias, Residual: t, Wide: true}))
			return []*Value{tp.Linear(u, l.down, With{Gate: mod[5], Residual: y})}
		}, h)
		h = outs[0]
	}
	return h.t.Bytes()
}

// counter counts the products of a backend.
type counter struct {
	ref.Backend
	gemms, attentions *int
}

func (c counter) Gemm(a *kernels.Gemm) { *c.gemms++; c.Backend.Gemm(a) }
func (c counter) AttentionBackward(a *kernels.AttentionBackward) {
	*c.attentions++
	c.Backend.AttentionBackward(a)
}

// TestBackwardVisitsOnlyWhatLeadsToTrainedParameters puts LoRA on the MLP of the last of
// four layers: backward runs through that MLP alone.
func TestBackwardVisitsOnlyWhatLeadsToTrainedParameters(t *testing.T) {
	c := counter{gemms: new(int), attentions: new(int)}
	m := newModel(c, 4, 3)
	tp := New(m.pool, f32)
	y := m.forward(tp, 0, 2)
	*c.gemms = 0
	tp.Backward(seedOf(y, 0))
	// down: dx; base up: nothing; B: dw, dx; A: dw.
	if *c.gemms != 4 || *c.attentions != 0 {
		t.Errorf("backward took %d products and %d attentions, want 4 and 0", *c.gemms, *c.attentions)
	}
	for _, p := range m.params {
		if (p.Grad() != nil) != p.Trained {
			t.Errorf("%s, trained %t: gradient %v", p.Name, p.Trained, p.Grad())
		}
	}
	tp.Reset()
}

func TestCheckpointsTakeLessMemory(t *testing.T) {
	var peaks []int
	for checkpoint := range AllBlocks + 1 {
		m := newModel(ref.Backend{}, 12, 0)
		tp := New(m.pool, Options{Train: true, Checkpoint: checkpoint})
		m.step(tp, 8)
		m.pool.ResetPeak()
		before := m.pool.Stats().InUse
		m.step(tp, 8)
		peaks = append(peaks, m.pool.Stats().Peak-before)
	}
	for i, peak := range peaks[1:] { // each quarter of the blocks saves its part
		if peak > peaks[i]-(peaks[0]-peaks[AllBlocks])/8 {
			t.Errorf("activations take %d bytes by quarters of the blocks that run again", peaks)
		}
	}
	if peaks[AllBlocks]*2 > peaks[0] {
		t.Errorf("activations take %d bytes, with checkpoints %d", peaks[0], peaks[AllBlocks])
	}
}

func TestMisuseOfTheTape(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	x := pool.FromF32(kernels.F32, []float32{1, 2}, 1, 2)
	for want, f := range map[string]func(){
		"a second backward": func() {
			tp := New(pool, f32)
			_, seed := Sum(tp.Unary(kernels.Square, tp.Variable(x)))
			tp.Backward(seed)
			tp.Backward(seed)
		},
		"one that was Reset": func() {
			tp := New(pool, f32)
			_, seed := Sum(tp.Unary(kernels.Square, tp.Variable(x)))
			tp.Reset()
			tp.Backward(seed)
		},
		"square f32[1 2] is used after it was freed": func() {
			tp := New(pool, f32)
			y := tp.Unary(kernels.Square, tp.Variable(x))
			_, seed := Sum(y)
			tp.Backward(seed)
			y.F32()
		},
		"Reset it before the next forward": func() {
			tp := New(pool, f32)
			y := tp.Unary(kernels.Square, tp.Variable(x))
			_, seed := Sum(y)
			tp.Backward(seed)
			tp.Unary(kernels.Square, tp.Variable(x))
		},
		"silu f32[1 2] is used after it was freed": func() {
			tp := New(pool, Options{})
			y := tp.Unary(kernels.SiLU, tp.Input(x))
			tp.Release(y)
			tp.Add(y, y)
		},
		"captured a variable that was assigned since": func() {
			tp := New(pool, Options{Train: true, Checkpoint: AllBlocks})
			h := tp.Variable(x)
			for range 2 {
				h = tp.Block(func(...*Value) []*Value { return []*Value{tp.Unary(kernels.Square, h)} })[0]
			}
			_, seed := Sum(h)
			tp.Backward(seed)
		},
		"does not train": func() { New(pool, Options{}).Backward() },
	} {
		if got := panicOf(f); !strings.Contains(got, want) {
			t.Errorf("want a panic with %q, got %q", want, got)
		}
	}
}

func panicOf(f func()) (s string) {
	defer func() { s = fmt.Sprint(recover()) }()
	f()
	return ""
}

// sgdLike applies AdamW to every trained parameter.
func optimise(be kernels.Backend, params []*Param, state map[*Param][2]*tensor.Tensor) {
	for _, p := range params {
		g := p.Grad()
		if g == nil {
			continue
		}
		s, ok := state[p]
		if !ok {
			pool := p.Value.Pool()
			s = [2]*tensor.Tensor{pool.Zeros(kernels.F32, p.Shape...), pool.Zeros(kernels.F32, p.Shape...)}
			state[p] = s
		}
		be.AdamW(&kernels.AdamW{P: p.Value.Span(), Grad: g.Span(), M: s[0].Span(), V: s[1].Span(), GradScale: 1,
			Beta1: 0.9, Beta2: 0.99, Rate: 1e-3, Eps: 1e-8, Step: 1e-3, RootScale: 1})
		p.Updated()
		p.ZeroGrad()
	}
}

// TestSteadyState trains for 200 steps and bounds what the pool and the heap gain.
func TestSteadyState(t *testing.T) {
	m := newModel(ref.Backend{}, 4, 2)
	state := map[*Param][2]*tensor.Tensor{}
	tp := New(m.pool, Options{Train: true, Checkpoint: AllBlocks, DType: kernels.BF16, Math: kernels.MathBF16})
	step := func() {
		y := m.forward(tp, 0, 2)
		tp.Backward(seedOf(y, 0))
		tp.Reset()
		optimise(m.pool.Backend(), m.params, state)
	}
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	for range 5 {
		step()
	}
	stats, before := m.pool.Stats(), heap()
	for range 200 {
		step()
	}
	after := m.pool.Stats()
	if after.Allocs != stats.Allocs || after.InUse != stats.InUse || after.Held != stats.Held {
		t.Errorf("the pool went from %+v to %+v over 200 steps", stats, after)
	}
	if grown := int64(heap()) - int64(before); grown > 64<<10 {
		t.Errorf("the heap grew by %d bytes over 200 steps", grown)
	}
}

// BenchmarkStep is a training step of a small transformer. What is allocated is handles
// and closures: the count does not depend on sizes (see BenchmarkStep in package nn for
// the fast backend).
func BenchmarkStep(b *testing.B) {
	m := newModel(nothing{}, 4, -1)
	state := map[*Param][2]*tensor.Tensor{}
	tp := New(m.pool, f32)
	b.ReportAllocs()
	for range b.N {
		y := m.forward(tp, 0, 2)
		tp.Backward(seedOf(y, 0))
		tp.Reset()
		optimise(m.pool.Backend(), m.params, state)
	}
}

// nothing is a backend whose heavy operations do nothing: what is left is the tape.
type nothing struct{ ref.Backend }

func (nothing) Gemm(*kernels.Gemm)                           {}
func (nothing) Attention(*kernels.Attention)                 {}
func (nothing) AttentionBackward(*kernels.AttentionBackward) {}
func (nothing) Norm(*kernels.Norm)                           {}
func (nothing) NormBackward(*kernels.NormBackward)           {}
func (nothing) GatedBackward(*kernels.GatedBackward)         {}
func (nothing) SumRows(*kernels.SumRows)                     {}
func (nothing) Copy(*kernels.Copy)                           {}
func (nothing) Unary(*kernels.Unary)                         {}
func (nothing) UnaryBackward(*kernels.UnaryBackward)         {}
func (nothing) Binary(*kernels.Binary)                       {}
func (nothing) AdamW(*kernels.AdamW)                         {}

// TestBatchInvariance runs samples alone and together.
func TestBatchInvariance(t *testing.T) {
	for _, o := range precisions {
		m := newModel(ref.Backend{}, 2, 0)
		tp := New(m.pool, o)
		var alone []byte
		for s := range 8 {
			alone = append(alone, m.forward(tp, s, s+1).t.Bytes()...)
			tp.Reset()
		}
		if all := m.forward(tp, 0, 8).t.Bytes(); !slices.Equal(all, alone) {
			t.Errorf("%s: a sample's bits depend on its batch", o.DType)
		}
		tp.Reset()
	}
}
