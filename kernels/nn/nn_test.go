package nn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
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

func draw(seed uint64, n int) []float32 {
	x := make([]float32, n)
	rng.New(seed).Normal(x, 0)
	for i := range x {
		x[i] *= 0.5
	}
	return x
}

// as converts a tensor of fp32 to another storage.
func as(t safetensors.Tensor, d safetensors.DType) safetensors.Tensor {
	x, _ := t.Float32(nil)
	b := make([]byte, 2*len(x))
	for i, v := range x {
		h := ref.ToBF16(v)
		if d == safetensors.F16 {
			h = ref.ToF16(v)
		}
		binary.LittleEndian.PutUint16(b[2*i:], h)
	}
	t.DType, t.Data = d, b
	return t
}

// folder writes tensors as a model folder and opens it.
func folder(t *testing.T, ts ...safetensors.Tensor) *safetensors.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := safetensors.Write(path, ts, nil); err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return set
}

func newParams(t *testing.T, o Options) *Params {
	t.Helper()
	if o.Pool == nil {
		o.Pool = tensor.NewPool(ref.Backend{})
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCheckReportsEverythingAtOnce asks for missing parameters and other shapes, and leaves some over.
func TestCheckReportsEverythingAtOnce(t *testing.T) {
	set := folder(t,
		safetensors.FromF32("blocks.0.attn.to_q.weight", []int{4, 3}, draw(1, 12)),
		safetensors.FromF32("blocks.0.attn.to_k.weight", []int{4, 4}, draw(1, 16)),
		safetensors.FromF32("blocks.0.norm.weight", []int{3}, draw(1, 3)),
		safetensors.FromF32("extra.weight", []int{1}, draw(1, 1)),
		safetensors.FromF32("position_ids", []int{1}, draw(1, 1)))
	p := newParams(t, Options{Source: set, Train: []string{"blocks.0.norms.*", ""}})
	p.Ignore("position_ids")
	b := p.At("blocks", 0)
	b.Linear("attn.to_q", 3, 4, false)
	b.Linear("attn.to_k", 3, 4, false)
	b.Linear("attn.to_v", 3, 4, false)
	b.RMSNorm("norm", 3, 1e-6)
	err := fmt.Sprint(p.Check())
	for _, want := range []string{
		"blocks.0.attn.to_k.weight: its shape is [4 4], the model's [4 3]",
		"blocks.0.attn.to_v.weight: missing (near: blocks.0.attn.to_k.weight",
		"extra.weight: the model has no such parameter",
		`train: "blocks.0.norms.*" matches no parameter (there are names like blocks.0.norm.weight`,
		`train: "" matches no parameter`,
	} {
		if !strings.Contains(err, want) {
			t.Errorf("Check does not say %q:\n%s", want, err)
		}
	}
	if strings.Contains(err, "position_ids") || strings.Contains(err, "to_q.weight: ") {
		t.Errorf("Check complains without need:\n%s", err)
	}
}

// TestStorageTypes reads one weight as fp32, bf16 and fp16, for both kinds of products,
// frozen and trained, and compares the layer with the formula.
func TestStorageTypes(t *testing.T) {
	w, b, x := safetensors.FromF32("l.weight", []int{3, 4}, draw(1, 12)), safetensors.FromF32("l.bias", []int{3}, draw(2, 3)), draw(3, 8)
	for _, d := range []safetensors.DType{safetensors.F32, safetensors.BF16, safetensors.F16} {
		for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
			for _, train := range []bool{false, true} {
				sw := w
				if d != safetensors.F32 {
					sw = as(w, d)
				}
				o := Options{Source: folder(t, sw, b), Math: m}
				if train {
					o.Train = []string{".*"}
				}
				p := newParams(t, o)
				l := p.Linear("l", 4, 3, true)
				if err := p.Check(); err != nil {
					t.Fatal(err)
				}
				if (l.W.Value == nil) == train {
					t.Errorf("%s trained %t: the weight's own values: %v", d, train, l.W.Value)
				}
				tp := autograd.New(p.root.Pool, autograd.Options{Math: m})
				y := l.Apply(tp, tp.Upload("x", x, 2, 4), autograd.With{}).F32()
				wf, _ := sw.Float32(nil)
				bf, _ := b.Float32(nil)
				for i := range y {
					want := float64(bf[i%3])
					for k := range 4 {
						want += float64(wf[i%3*4+k]) * float64(x[i/3*4+k])
					}
					tolerance := 1e-6
					if m == kernels.MathBF16 {
						tolerance = 1e-2
					}
					if math.Abs(want-float64(y[i])) > tolerance {
						t.Errorf("%s in %s: %v, want %v", d, m, y[i], want)
					}
				}
				tp.Reset()
				if live, all := p.root.Pool.Stats().Live, len(p.All()); live > all {
					t.Errorf("%d tensors are left for %d parameters", live, all)
				}
			}
		}
	}
}

// TestConvReadsTheHubsOrder compares a convolution with the formula over [out, in, KH, KW].
func TestConvReadsTheHubsOrder(t *testing.T) {
	const in, out, k, h, w = 2, 3, 3, 4, 3
	weight := draw(1, out*in*k*k)
	set := folder(t, safetensors.FromF32("c.weight", []int{out, in, k, k}, weight), safetensors.FromF32("c.bias", []int{out}, make([]float32, out)))
	for _, train := range []string{"none", "c.*"} {
		p := newParams(t, Options{Source: set, Train: []string{train}})
		c := p.Conv("c", Square(in, out, k, 1, 1), true)
		tp := autograd.New(p.root.Pool, autograd.Options{})
		x := draw(2, h*w*in)
		y := c.Apply(tp, tp.Upload("x", x, 1, h, w, in), nil).F32()
		for i, got := range y {
			o, px, py, want := i%out, i/out%w, i/out/w, 0.0
			for dy := range k {
				for dx := range k {
					for ch := range in {
						if u, v := py+dy-1, px+dx-1; u >= 0 && u < h && v >= 0 && v < w {
							want += float64(weight[((o*in+ch)*k+dy)*k+dx]) * float64(x[(u*w+v)*in+ch])
						}
					}
				}
			}
			if math.Abs(want-float64(got)) > 1e-5 {
				t.Fatalf("pixel %d: %v, want %v", i, got, want)
			}
		}
		if train != "none" {
			if got, _ := p.Tensors()[1].Float32(nil); fmt.Sprint(got) == fmt.Sprint(weight) {
				continue
			}
			if got, _ := p.Tensors()[0].Float32(nil); fmt.Sprint(got) != fmt.Sprint(weight) {
				t.Error("the weight is not written as it was read")
			}
		}
	}
}

// TestFreshParametersDependOnTheirNamesAlone draws the same layer in two models.
func TestFreshParametersDependOnTheirNamesAlone(t *testing.T) {
	one := newParams(t, Options{Key: rng.New(4), Train: []string{".*"}})
	two := newParams(t, Options{Key: rng.New(4), Train: []string{".*"}})
	two.Linear("before", 3, 3, true)
	a, b := one.Linear("l", 4, 4, true), two.Linear("l", 4, 4, true)
	z := two.Zeroed().Linear("z", 4, 4, true)
	if !bytes.Equal(a.W.Value.Bytes(), b.W.Value.Bytes()) {
		t.Error("a weight depends on what was drawn before it")
	}
	for _, v := range append(a.W.Value.F32(), a.B.Value.F32()...) {
		if v == 0 || math.Abs(float64(v)) > 0.5 {
			t.Errorf("a drawn weight of %v", v)
		}
	}
	for _, v := range append(z.W.Value.F32(), z.B.Value.F32()...) {
		if v != 0 {
			t.Errorf("a zeroed weight of %v", v)
		}
	}
}

// TestBlank: a trained parameter of a pattern is drawn, as a model of nothing draws it, and all others are read.
func TestBlank(t *testing.T) {
	stored := draw(1, 16)
	set := folder(t, safetensors.FromF32("a.weight", []int{4, 4}, stored), safetensors.FromF32("b.weight", []int{4, 4}, stored))
	p := newParams(t, Options{Source: set, Key: rng.New(4), Train: []string{".*"}, Blank: []string{"b.*"}})
	a, b := p.Linear("a", 4, 4, false), p.Linear("b", 4, 4, false)
	want := newParams(t, Options{Key: rng.New(4), Train: []string{".*"}}).Linear("b", 4, 4, false)
	if err := p.Check(); err != nil || !slices.Equal(a.W.Value.F32(), stored) || !bytes.Equal(b.W.Value.Bytes(), want.W.Value.Bytes()) {
		t.Errorf("%v: a is %v, b is %v", err, a.W.Value.F32(), b.W.Value.F32())
	}
	frozen := newParams(t, Options{Source: set, Key: rng.New(4), Train: []string{"a.*"}, Blank: []string{"b.*", "c.*"}})
	frozen.Linear("a", 4, 4, false)
	frozen.Linear("b", 4, 4, false)
	err := fmt.Sprint(frozen.Check())
	for _, says := range []string{"b.weight: it begins as random numbers, and is not trained", `blank: "c.*" matches no parameter`} {
		if !strings.Contains(err, says) {
			t.Errorf("Check does not say %q:\n%s", says, err)
		}
	}
}

func TestTimestepEmbedding(t *testing.T) {
	for _, x := range []float64{0, 1e-9, 0.3, 0.785398, 1.5707963, 3.2, 999.5, 12345.678, -2.5} {
		s, c := Sincos(x)
		if math.Abs(s-math.Sin(x)) > 3e-16 || math.Abs(c-math.Cos(x)) > 3e-16 {
			t.Errorf("sin, cos %v: %v, %v", x, s-math.Sin(x), c-math.Cos(x))
		}
		if y := -x / 100; math.Abs(Exp(y)/math.Exp(y)-1) > 4e-16 {
			t.Errorf("exp %v: %v", y, Exp(y)/math.Exp(y)-1)
		}
	}
	e := Timestep{Dim: 8, CosFirst: true}.Embed([]float32{500, 1})
	for i := range 4 {
		f := float64(float32(math.Exp(-math.Log(10000) * float64(i) / 4)))
		if math.Abs(float64(e[i])-math.Cos(500*f)) > 4e-5 || math.Abs(float64(e[12+i])-math.Sin(f)) > 1e-6 {
			t.Errorf("place %d: %v and %v", i, e[i], e[12+i])
		}
	}
}
