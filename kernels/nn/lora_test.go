package nn

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// block is one layer of each kind, with names of diffusers.
type block struct {
	attention *Attention
	mlp       *MLP
	conv      *Conv
	norm      *Norm
}

func newBlock(p *Params) *block {
	return &block{attention: p.Attention("attn", 8, 8, 2, 4, true), norm: p.LayerNorm("norm", 8, 1e-6), conv: p.Conv("conv_in", Square(8, 8, 3, 1, 1), true),
		mlp: &MLP{Up: p.Linear("ff.net.0.proj", 8, 16, true), Down: p.Linear("ff.net.2", 16, 8, true), Act: kernels.GELUTanh}}
}

// run takes pictures [N, 2, 2, 8] and gates [N, 8].
func (b *block) run(tp *autograd.Tape, x, gate *autograd.Value) *autograd.Value {
	h := tp.Reshape(b.conv.Apply(tp, x, x), x.Dim(0), 4, 8)
	n := b.norm.Apply(tp, h)
	h = b.attention.Apply(tp, n, n, autograd.Attend{}, autograd.With{Gate: gate, Residual: h})
	return b.mlp.Apply(tp, b.norm.Apply(tp, h), autograd.With{Gate: gate, Residual: h})
}

func (b *block) eval(tp *autograd.Tape) *autograd.Value {
	return b.run(tp, tp.Upload("x", draw(8, 2*4*8), 2, 2, 2, 8), tp.Upload("gate", draw(9, 16), 2, 8))
}

func (b *block) bytes(p *Params, o autograd.Options) []byte {
	tp := autograd.New(p.root.Pool, o)
	defer tp.Reset()
	return b.eval(tp).Tensor().Bytes()
}

// everywhere is an adapter on each of the block's layers.
var everywhere = LoRA{Rank: 2, Alpha: 4, Pattern: ".*", Key: rng.New(6)}

func withLoRA(t *testing.T, o Options, c LoRA) (*Params, *block, *Adapters) {
	t.Helper()
	p := newParams(t, o)
	b := newBlock(p)
	set, err := p.AddLoRA(c)
	if err != nil {
		t.Fatal(err)
	}
	return p, b, set
}

// fill gives every B numbers, so that the adapters do something.
func (s *Adapters) fill() {
	for i, w := range s.Params() {
		if i%2 == 1 {
			w.Value.UploadF32(draw(uint64(20+i), w.Value.Len()))
			w.Updated()
		}
	}
}

var precisions = []autograd.Options{{}, {DType: kernels.BF16, Math: kernels.MathBF16}}

// TestAdaptersLeaveTheBaseAlone compares bits: a fresh adapter changes none; switched off
// a trained one changes none; merged and unmerged neither.
func TestAdaptersLeaveTheBaseAlone(t *testing.T) {
	for _, o := range precisions {
		p, b, set := withLoRA(t, Options{Math: o.Math, Key: rng.New(1)}, everywhere)
		set.On = false
		base := b.bytes(p, o)
		set.On = true
		if !bytes.Equal(b.bytes(p, o), base) {
			t.Errorf("%s: a fresh adapter changes the model", o.DType)
		}
		set.fill()
		with := b.bytes(p, o)
		if bytes.Equal(with, base) {
			t.Fatalf("%s: adapters do nothing", o.DType)
		}
		set.On = false
		if !bytes.Equal(b.bytes(p, o), base) {
			t.Errorf("%s: adapters that are off change the model", o.DType)
		}
		set.On = true
		if err := set.Merge(); err != nil {
			t.Fatal(err)
		}
		if d := apart(b.bytes(p, o), with, o.DType); d > 0.05 || o.DType == kernels.F32 && d > 1e-5 {
			t.Errorf("%s: merged, the model differs by %v", o.DType, d)
		}
		if err := set.Unmerge(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.bytes(p, o), with) {
			t.Errorf("%s: after unmerging the adapters differ", o.DType)
		}
		set.On = false
		if !bytes.Equal(b.bytes(p, o), base) {
			t.Errorf("%s: after unmerging the base differs", o.DType)
		}
	}
}

func apart(a, b []byte, d kernels.DType) float64 {
	pool := tensor.NewPool(ref.Backend{})
	x, y := pool.New(d, len(a)/d.Size()), pool.New(d, len(b)/d.Size())
	x.UploadBytes(a)
	y.UploadBytes(b)
	most, q := 0.0, y.F32()
	for i, v := range x.F32() {
		most = math.Max(most, math.Abs(float64(v-q[i])))
	}
	return most
}

// TestTargetsAreMatchedAsPEFTMatchesThem lists the selection of each rule.
func TestTargetsAreMatchedAsPEFTMatchesThem(t *testing.T) {
	all := []string{"attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0", "conv_in", "ff.net.0.proj", "ff.net.2"}
	linear := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "conv_in" })
	for _, c := range []struct {
		lora LoRA
		want []string
	}{
		{LoRA{Targets: []string{"to_q", "net.2"}}, []string{"attn.to_q", "ff.net.2"}},
		{LoRA{Targets: []string{"attn.to_out.0", "conv_in"}}, []string{"attn.to_out.0", "conv_in"}},
		{LoRA{Targets: []string{"all-linear"}}, linear},
		{LoRA{Pattern: "all-linear"}, linear},
		{LoRA{Pattern: `attn\.to_[qk]`}, []string{"attn.to_q", "attn.to_k"}},
		{LoRA{Pattern: `.*`, Exclude: []string{"to_q", "proj"}}, []string{"attn.to_k", "attn.to_v", "attn.to_out.0", "conv_in", "ff.net.2"}},
		{LoRA{Targets: []string{"all-linear"}, ExcludePattern: `attn.*`}, []string{"ff.net.0.proj", "ff.net.2"}},
	} {
		c.lora.Rank = 1
		_, _, set := withLoRA(t, Options{}, c.lora)
		got, want := set.Modules(), slices.Clone(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%+v selects %v", c.lora, got)
		}
	}
	for want, c := range map[string]LoRA{
		`"to_qq" matches no layer (near: attn.to_q`: {Rank: 1, Targets: []string{"to_qq"}},
		`"o_q" matches no layer`:                    {Rank: 1, Targets: []string{"o_q"}}, // an end, but not after a dot
		`"to_q" matches no layer`:                   {Rank: 1, Pattern: "to_q"},          // not the whole name
		"the rank is 0":                             {Targets: []string{"to_q"}},
		"error parsing regexp":                      {Rank: 1, Pattern: "("},
	} {
		p := newParams(t, Options{})
		newBlock(p)
		if _, err := p.AddLoRA(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	p := newParams(t, Options{Train: []string{"attn.to_q.weight"}})
	newBlock(p)
	if _, err := p.AddLoRA(LoRA{Rank: 1, Targets: []string{"to_q"}}); err == nil {
		t.Error("an adapter on a trained layer")
	}
}

func TestScaling(t *testing.T) {
	for want, c := range map[float32]LoRA{2: {Rank: 4, Alpha: 8}, 4: {Rank: 4, Alpha: 8, RSLoRA: true}} {
		c.Targets = []string{"to_q"}
		if _, _, set := withLoRA(t, Options{}, c); set.list[0].scale != want {
			t.Errorf("%+v: scale %v", c, set.list[0].scale)
		}
	}
	_, _, set := withLoRA(t, Options{}, LoRA{Rank: 4, Alpha: 1, Targets: []string{"to_q", "conv_in"}})
	for _, ad := range set.list {
		bound := 1 / math.Sqrt(float64(ad.a.param.Value.Len()/4))
		for _, v := range ad.a.param.Value.F32() {
			if math.Abs(float64(v)) > bound || v == 0 {
				t.Errorf("%s: A has %v, beyond %v", ad.module.name, v, bound)
			}
		}
	}
}

// TestLoRAGradients holds the adapters' gradients to finite differences, through gates,
// residuals, activations, a convolution and dropout.
func TestLoRAGradients(t *testing.T) {
	c := everywhere
	c.Dropout = 0.2
	p, b, set := withLoRA(t, Options{Key: rng.New(1)}, c)
	set.fill()
	weights := draw(30, 2*4*8)
	loss := func(tp *autograd.Tape) (float64, autograd.Seed) {
		tp.Keys = []rng.Key{rng.New(1), rng.New(2)}
		return autograd.Dot(b.eval(tp), weights)
	}
	tp := autograd.New(p.root.Pool, autograd.Options{Train: true})
	_, seed := loss(tp)
	tp.Backward(seed)
	tp.Reset()
	for k, w := range set.Params() {
		g, x := w.Grad().F32(), w.Value.F32()
		for i := 0; i < len(x); i += 1 + len(x)/5 {
			at := func(h float32) float64 {
				y := slices.Clone(x)
				y[i] += h
				w.Value.UploadF32(y)
				v, _ := loss(tp)
				tp.Reset()
				w.Value.UploadF32(x)
				return v
			}
			const h = 1.0 / 64
			want := (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
			if math.Abs(want-float64(g[i])) > 1e-3*(1+math.Abs(want)) {
				t.Errorf("%s (%d), element %d: %v, finite differences give %v", w.Name, k, i, g[i], want)
			}
		}
	}
	for _, w := range p.All() {
		if !w.Trained && w.Grad() != nil {
			t.Errorf("the frozen %s has a gradient", w.Name)
		}
	}
}

// memory is a source in memory.
type memory []safetensors.Tensor

func (m memory) Names() (names []string) {
	for _, t := range m {
		names = append(names, t.Name)
	}
	return names
}

func (m memory) Tensor(name string) (safetensors.Tensor, error) {
	for _, t := range m {
		if t.Name == name {
			return t.Made()
		}
	}
	return safetensors.Tensor{}, fmt.Errorf("no %s", name)
}

// TestAdaptersAreWrittenAndRead moves pairs from one model to another.
func TestAdaptersAreWrittenAndRead(t *testing.T) {
	o := autograd.Options{}
	p, b, set := withLoRA(t, Options{Key: rng.New(1)}, everywhere)
	set.fill()
	written := memory(set.Tensors("base_model.model."))
	if t0 := written[0]; t0.Name != "base_model.model.attn.to_q.lora_A.weight" || !slices.Equal(t0.Shape, []int{2, 8}) {
		t.Errorf("the first is %s %v", t0.Name, t0.Shape)
	}
	for _, w := range written {
		if strings.Contains(w.Name, "conv_in.lora_A") && !slices.Equal(w.Shape, []int{2, 8, 3, 3}) {
			t.Errorf("%s %v", w.Name, w.Shape)
		}
	}
	other := everywhere
	other.Key = rng.New(99)
	q, c, fresh := withLoRA(t, Options{Key: rng.New(1)}, other)
	if bytes.Equal(c.bytes(q, o), b.bytes(p, o)) {
		t.Fatal("the models are equal before")
	}
	if err := fresh.Load(written, "base_model.model."); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.bytes(q, o), b.bytes(p, o)) {
		t.Error("what was read is not what was written")
	}
	if err := fresh.Load(written[:3], "base_model.model."); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("reading half a file: %v", err)
	}
}

// TestGaussianAdapter: PEFT's init_lora_weights = "gaussian" draws A with deviation 1/rank; its default is uniform
// within 1/sqrt(inputs). B is 0 in both.
func TestGaussianAdapter(t *testing.T) {
	for _, gaussian := range []bool{false, true} {
		c := LoRA{Rank: 2, Alpha: 4, Pattern: ".*", Gaussian: gaussian, Key: rng.New(6)}
		_, _, set := withLoRA(t, Options{Key: rng.New(1)}, c)
		squares, n, largest := 0.0, 0, 0.0
		for _, w := range set.Tensors("") {
			values, err := w.Float32(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				if strings.Contains(w.Name, "lora_B") && v != 0 {
					t.Fatalf("%s begins with %v", w.Name, v)
				}
				if strings.Contains(w.Name, "to_q.lora_A") { // of 8 inputs
					squares, n, largest = squares+float64(v*v), n+1, math.Max(largest, math.Abs(float64(v)))
				}
			}
		}
		deviation, want := math.Sqrt(squares/float64(n)), 1/math.Sqrt(3*8)
		if gaussian {
			want = 0.5
		}
		if math.Abs(deviation-want) > want/2 || !gaussian && largest > 1/math.Sqrt(8) {
			t.Errorf("gaussian %v: deviation %.3f of %d numbers up to %.3f, want about %.3f", gaussian, deviation, n, largest, want)
		}
	}
}
