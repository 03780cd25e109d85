package peft

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// drawn is a tensor of normals.
func drawn(t *testing.T, name string, shape ...int) safetensors.Tensor {
	t.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	x := make([]float32, n)
	rng.New(3).With(rng.Purpose(name)).Normal(x, 0)
	out, err := safetensors.FromFloat32(name, safetensors.F32, shape, x)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mixed is an adapter whose layers have two ranks and three alphas.
func mixed(t *testing.T) *Adapter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.safetensors")
	pair := func(module string, rank, in, out int) []safetensors.Tensor {
		return []safetensors.Tensor{drawn(t, "unet."+module+".lora_A.weight", rank, in), drawn(t, "unet."+module+".lora_B.weight", out, rank)}
	}
	tensors := slices.Concat(pair("blocks.0.attn.to_q", 2, 6, 4), pair("blocks.0.attn.to_k", 2, 6, 4), pair("blocks.1.attn.to_q", 2, 6, 4), pair("blocks.1.attn.to_k", 3, 6, 4),
		[]safetensors.Tensor{drawn(t, "unet.conv_in.lora_A.weight", 2, 3, 3, 3), drawn(t, "unet.conv_in.lora_B.weight", 5, 2, 1, 1)})
	const settings = `{"unet.r": 2, "unet.lora_alpha": 6, "unet.rank_pattern": {"blocks.1.attn.to_k": 3},
		"unet.alpha_pattern": {"blocks.1.attn.to_k": 9, "conv_in": 1, "to_k": 6}}`
	if err := safetensors.Write(path, tensors, map[string]string{"lora_adapter_metadata": settings}); err != nil {
		t.Fatal(err)
	}
	a, err := Open(path, "unet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// Copies in both layouts say the same of every layer, whatever its rank and alpha.
func TestCopies(t *testing.T) {
	a := mixed(t)
	want := map[string]kind{"blocks.0.attn.to_q": {2, 6}, "blocks.0.attn.to_k": {2, 6}, "blocks.1.attn.to_q": {2, 6}, "blocks.1.attn.to_k": {3, 9}, "conv_in": {2, 1}}
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "peft"), filepath.Join(dir, "one.safetensors")
	if err := a.Copy(folder); err != nil {
		t.Fatal(err)
	}
	if err := a.CopyDiffusers(file, "transformer"); err != nil {
		t.Fatal(err)
	}
	for path, component := range map[string]string{folder: "transformer", file: "transformer", a.path: "unet"} {
		b, err := Open(path, component)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for module, k := range want {
			if got, err := b.kindOf(module); err != nil || got != k {
				t.Errorf("%s: %s: %v %v, want %v", path, module, got, err, k)
			}
		}
		for _, name := range a.Names() {
			x, err := a.Tensor(name)
			if err != nil {
				t.Fatal(err)
			}
			y, err := b.Tensor(name)
			if err != nil || !slices.Equal(x.Data, y.Data) {
				t.Errorf("%s: %s differs, %v", path, name, err)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "adapter_config.json"))
	if err != nil || !strings.Contains(string(text), `"blocks.1.attn.to_k": 3`) {
		t.Errorf("%s %v", text, err)
	}
}

// The first pattern that matches counts, as in PEFT.
func TestPatternsAreInOrder(t *testing.T) {
	var p Patterns
	if err := p.UnmarshalJSON([]byte(`{"0.to_q": 1, "to_q": 2, "(to": 3, "^to_k": 4}`)); err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]float64{"x.0.to_q": 1, "x.1.to_q": 2, "to_k": 4, "x.to_k": 0, "auto_q": 0} {
		if got, _ := p.find(module); got != want {
			t.Errorf("%s: %v, want %v", module, got, want)
		}
	}
	for _, bad := range []string{`[1]`, `{"a": "b"}`, `3`} {
		if err := p.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// set is a source of tensors.
type set map[string]safetensors.Tensor

func (s set) Names() (all []string) {
	for n := range s {
		all = append(all, n)
	}
	return all
}
func (s set) Tensor(name string) (safetensors.Tensor, error) { return s[name], nil }

// A model of merged weights has the outputs of the model with its adapter.
func TestMerged(t *testing.T) {
	a := mixed(t)
	pool := tensor.NewPool(ref.Backend{})
	weights := set{}
	for _, x := range []safetensors.Tensor{drawn(t, "blocks.0.attn.to_q.weight", 4, 6), drawn(t, "blocks.0.attn.to_k.weight", 4, 6), drawn(t, "blocks.1.attn.to_q.weight", 4, 6),
		drawn(t, "blocks.1.attn.to_k.weight", 4, 6), drawn(t, "conv_in.weight", 5, 3, 3, 3)} {
		weights[x.Name] = x
	}
	outputs := func(src set, adapt bool) (all []float32) {
		p, err := nn.New(nn.Options{Pool: pool, Source: src})
		if err != nil {
			t.Fatal(err)
		}
		tp := autograd.New(pool, autograd.Options{})
		var layers []*nn.Linear
		for i := range 2 {
			layers = append(layers, p.At("blocks", i).Linear("attn.to_q", 6, 4, false), p.At("blocks", i).Linear("attn.to_k", 6, 4, false))
		}
		conv := p.Conv("conv_in", nn.Square(3, 5, 3, 1, 1), false)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		if adapt {
			if _, err := a.AddTo(p); err != nil {
				t.Fatal(err)
			}
		}
		x, picture := make([]float32, 12), make([]float32, 48)
		rng.New(1).Normal(x, 0)
		rng.New(2).Normal(picture, 0)
		for _, l := range layers {
			all = append(all, l.Apply(tp, tp.Upload("x", x, 2, 6), autograd.With{}).F32()...)
		}
		return append(all, conv.Apply(tp, tp.Upload("x", picture, 1, 4, 4, 3), nil).F32()...)
	}
	want := outputs(weights, true)
	merged := set{}
	for name, w := range weights {
		m, err := a.Merged(pool, w, strings.TrimSuffix(name, ".weight"))
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(m.Data, w.Data) {
			t.Errorf("%s did not change", name)
		}
		merged[name] = m
	}
	for i, got := range outputs(merged, false) {
		if d := math.Abs(float64(got - want[i])); !(d <= 1e-5*(1+math.Abs(float64(want[i])))) {
			t.Errorf("output %d is %v, want %v", i, got, want[i])
		}
	}
	if _, err := a.Merged(pool, drawn(t, "x", 7, 6), "blocks.0.attn.to_q"); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Error(err)
	}
	half, err := safetensors.FromFloat32("x", safetensors.BF16, []int{4, 6}, make([]float32, 24))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := a.Merged(pool, half, "blocks.0.attn.to_q"); err != nil || m.DType != safetensors.BF16 {
		t.Error(m.DType, err)
	}
}
