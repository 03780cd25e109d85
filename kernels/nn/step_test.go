package nn

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// dit is a small diffusion transformer: modulation by time, gated residuals, norms of
// queries and keys, GEGLU and plain MLPs.
type dit struct {
	p      *Params
	time   *MLP
	blocks []*ditBlock
	out    *Linear
	o      autograd.Options
	width  int
	state  map[*autograd.Param][2]*tensor.Tensor
}

type ditBlock struct {
	mod       *Linear
	plain     *Norm
	attention *Attention
	mlp       interface {
		Apply(*autograd.Tape, *autograd.Value, autograd.With) *autograd.Value
	}
}

func newDiT(t testing.TB, be kernels.Backend, o autograd.Options, depth, width, heads int, train ...string) *dit {
	t.Helper()
	p, err := New(Options{Pool: tensor.NewPool(be), Math: o.Math, Key: rng.New(3), Train: train})
	if err != nil {
		t.Fatal(err)
	}
	d := &dit{p: p, o: o, width: width, state: map[*autograd.Param][2]*tensor.Tensor{}, out: p.Linear("proj_out", width, width, true),
		time: &MLP{Up: p.Linear("time.linear_1", 16, width, true), Down: p.Linear("time.linear_2", width, width, true), Act: kernels.SiLU}}
	for i := range depth {
		s := p.At("blocks", i)
		b := &ditBlock{mod: s.Linear("norm1.linear", width, 6*width, true), plain: PlainNorm(kernels.LayerNorm, 1e-6), attention: s.Attention("attn", width, width, heads, width/heads, true)}
		b.attention.NormQ, b.attention.NormK = s.RMSNorm("attn.norm_q", width/heads, 1e-6), s.RMSNorm("attn.norm_k", width/heads, 1e-6)
		down := s.Linear("ff.net.2", 4*width, width, true)
		if i%2 == 0 {
			b.mlp = &MLP{Up: s.Linear("ff.net.0.proj", width, 4*width, true), Down: down, Act: kernels.GELUTanh}
		} else {
			b.mlp = &GatedMLP{Up: s.Linear("ff.net.0.proj", width, 8*width, true), Down: down, Act: kernels.GELUErf}
		}
		d.blocks = append(d.blocks, b)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return d
}

// forward is the model's output for samples lo to hi-1 of a fixed batch.
func (d *dit) forward(tp *autograd.Tape, lo, hi, tokens int) *autograd.Value {
	n := hi - lo
	x, times := make([]float32, n*tokens*d.width), make([]float32, n)
	for s := range n {
		rng.New(1).Sample(lo+s).Normal(x[s*tokens*d.width:(s+1)*tokens*d.width], 0)
		times[s] = float32(100 * (lo + s))
	}
	h := tp.Upload("latents", x, n, tokens, d.width)
	c := d.time.Apply(tp, tp.Upload("time", Timestep{Dim: 16, CosFirst: true}.Embed(times), n, 16), autograd.With{Act: kernels.SiLU})
	for _, b := range d.blocks {
		h = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
			h, c := in[0], in[1]
			m := tp.Chunk(b.mod.Apply(tp, c, autograd.With{}), 6)
			a := b.plain.Modulated(tp, h, m[0], m[1])
			y := b.attention.Apply(tp, a, a, autograd.Attend{}, autograd.With{Gate: m[2], Residual: h})
			return []*autograd.Value{b.mlp.Apply(tp, b.plain.Modulated(tp, y, m[3], m[4]), autograd.With{Gate: m[5], Residual: y})}
		}, h, c)[0]
	}
	return d.out.Apply(tp, h, autograd.With{})
}

// step is forward, a loss (the output's weighted sum), backward and AdamW.
func (d *dit) step(tp *autograd.Tape, samples, tokens int) {
	y := d.forward(tp, 0, samples, tokens)
	_, seed := autograd.Mean(y)
	tp.Backward(seed)
	tp.Reset()
	for _, w := range d.p.Trained() {
		d.update(w)
	}
}

// update applies AdamW to a parameter that has a gradient.
func (d *dit) update(w *autograd.Param) {
	g := w.Grad()
	if g == nil {
		return
	}
	pool := g.Pool()
	s, ok := d.state[w]
	if !ok {
		s = [2]*tensor.Tensor{pool.Zeros(kernels.F32, w.Shape...), pool.Zeros(kernels.F32, w.Shape...)}
		d.state[w] = s
	}
	pool.Backend().AdamW(&kernels.AdamW{P: w.Value.Span(), Grad: g.Span(), M: s[0].Span(), V: s[1].Span(),
		GradScale: 1, Beta1: 0.9, Beta2: 0.99, Rate: 1e-3, Eps: 1e-8, Step: 1e-3, RootScale: 1})
	w.Updated()
	w.ZeroGrad()
}

// TestTrainingIsTheSameOnEveryPath takes three steps on ref and on the machine's fast
// path, with other micro-batches and checkpoints: outputs, weights, all bytes.
func TestTrainingIsTheSameOnEveryPath(t *testing.T) {
	fast, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	for _, o := range precisions {
		o.Train = true
		var want []byte
		for i, be := range []kernels.Backend{ref.Backend{}, fast, fast} {
			d := newDiT(t, be, o, 2, 16, 2, ".*")
			if i == 2 {
				d.o.Checkpoint, d.o.Lean = autograd.AllBlocks, true
			}
			tp := autograd.New(d.p.root.Pool, d.o)
			for range 3 {
				micro := []int{3, 3, 1}[i]
				for lo := 0; lo < 3; lo += micro {
					y := d.forward(tp, lo, lo+micro, 5)
					_, seed := autograd.Sum(y)
					tp.Backward(seed)
					tp.Reset()
				}
				for _, w := range d.p.Trained() {
					d.update(w)
				}
			}
			var got []byte
			for _, w := range d.p.Trained() {
				got = append(got, w.Value.Bytes()...)
			}
			if want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s: %s: other weights after three steps than ref's", o.DType, be.Name())
			}
		}
	}
}

// TestLean: a lean pass leaves no packed copy of its trained parameters, and meanwhile there is one at a time; other
// passes keep theirs.
func TestLean(t *testing.T) {
	dry := cpu.NewDry(cpu.Options{})
	d := newDiT(t, dry, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16}, 2, 256, 4, ".*")
	pool := d.p.root.Pool
	held := func() int {
		pool.Trim()
		dry.ResetPeak()
		return dry.Peak()
	}
	forward := func(o autograd.Options, train bool) {
		o.Train, o.Lean = train, train
		tp := autograd.New(pool, o)
		y := d.forward(tp, 0, 1, 4)
		if train {
			_, seed := autograd.Mean(y)
			tp.Backward(seed)
			d.p.ZeroGrad()
		}
		tp.Reset()
	}
	before := held()
	forward(d.o, false)
	packed := held() - before
	if packed < before/3 {
		t.Fatalf("weights of %d bytes have packed copies of %d", before, packed)
	}
	forward(d.o, true)
	if now := held(); now != before {
		t.Errorf("after a pass that trains %d bytes lie beside the weights", now-before)
	}
	gradients := before // of the same size
	tp := autograd.New(pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16, Train: true, Lean: true})
	_, seed := autograd.Mean(d.forward(tp, 0, 1, 4))
	tp.Backward(seed)
	tp.Reset()
	if now := held() - before; now > gradients+gradients/4 { // whose pieces have sizes of classes
		t.Errorf("after backward %d bytes lie beside the weights, whose gradients take about %d", now, gradients)
	}
}

// TestLeanGradients: they are the same bytes, also where blocks run again.
func TestLeanGradients(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	var want []byte
	for _, o := range []autograd.Options{{}, {Lean: true}, {Lean: true, Checkpoint: 2}} {
		o.Train, o.DType, o.Math = true, kernels.BF16, kernels.MathBF16
		d := newDiT(t, be, o, 2, 128, 4, ".*") // whose matrices are packed
		tp := autograd.New(d.p.root.Pool, o)
		_, seed := autograd.Sum(d.forward(tp, 0, 2, 5))
		tp.Backward(seed)
		tp.Reset()
		var got []byte
		for _, w := range d.p.Trained() {
			got = append(got, w.AnyGrad().Bytes()...)
		}
		if want == nil {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Errorf("%+v: other gradients", o)
		}
		d.p.Free()
	}
	if bytes.Equal(want, make([]byte, len(want))) {
		t.Error("gradients are zero")
	}
}

// TestSteadyState trains adapters for 200 steps on the fast backend and bounds the growth of the pool and the heap.
func TestSteadyState(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	d := newDiT(t, be, autograd.Options{Train: true, DType: kernels.BF16, Math: kernels.MathBF16}, 4, 32, 2)
	if _, err := d.p.AddLoRA(LoRA{Rank: 4, Alpha: 4, Targets: []string{"to_q", "to_v", "net.2"}}); err != nil {
		t.Fatal(err)
	}
	tp := autograd.New(d.p.root.Pool, d.o)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	for range 10 {
		d.step(tp, 2, 8)
	}
	stats, before := d.p.root.Pool.Stats(), heap()
	for range 200 {
		d.step(tp, 2, 8)
	}
	if now := d.p.root.Pool.Stats(); now.Allocs != stats.Allocs || now.InUse != stats.InUse {
		t.Errorf("the pool went from %+v to %+v over 200 steps", stats, now)
	}
	if grown := heap() - before; grown > 64<<10 {
		t.Errorf("the heap grew by %d bytes over 200 steps", grown)
	}
}

// BenchmarkStep is a training step, LoRA and full, of a 4-layer transformer.
func BenchmarkStep(b *testing.B) {
	be, err := cpu.New()
	if err != nil {
		b.Fatal(err)
	}
	defer be.Close()
	for _, full := range []bool{false, true} {
		name, train := "lora", []string(nil)
		if full {
			name, train = "full", []string{".*"}
		}
		b.Run(name, func(b *testing.B) {
			d := newDiT(b, be, autograd.Options{Train: true, DType: kernels.BF16, Math: kernels.MathBF16}, 4, 256, 4, train...)
			if !full {
				if _, err := d.p.AddLoRA(LoRA{Rank: 16, Alpha: 16, Targets: []string{"all-linear"}}); err != nil {
					b.Fatal(err)
				}
			}
			tp := autograd.New(d.p.root.Pool, d.o)
			d.step(tp, 2, 64)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				d.step(tp, 2, 64)
			}
			b.ReportMetric(float64(d.p.root.Pool.Stats().Peak)/(1<<20), "peak-MiB")
		})
	}
}
