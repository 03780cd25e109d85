package neural

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// TestHead: the product of layers agrees with the layers one after another.
func TestHead(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	random := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		return x
	}
	widths := []int{7, 5, 4, 1}
	var layers []Dense
	for i := range widths[1:] {
		in, out := widths[i], widths[i+1]
		layers = append(layers, Dense{In: in, Out: out, Weight: random(in * out), Bias: random(out)})
	}
	head, err := NewHead(layers...)
	if err != nil {
		t.Fatal(err)
	}
	u := random(7)
	x := u
	for _, l := range layers {
		y := append([]float64(nil), l.Bias...)
		for o := range y {
			y[o] += dot(l.Weight[o*l.In:(o+1)*l.In], x)
		}
		x = y
	}
	got, err := head.Of(u)
	if err != nil || math.Abs(got-x[0]) > 1e-12*(1+math.Abs(x[0])) {
		t.Errorf("%v, layers give %v (%v)", got, x[0], err)
	}
	if _, err := head.Of(u[:6]); err == nil || !strings.Contains(err.Error(), "different networks") {
		t.Errorf("a vector of another length: %v", err)
	}
	for _, bad := range [][]Dense{nil, layers[:2], {layers[0], layers[2]}, {{In: 1, Out: 1}}, {{In: -1, Out: -1, Weight: []float64{1}}}} {
		if _, err := NewHead(bad...); err == nil {
			t.Errorf("%v is a head", bad)
		}
	}
}

// TestOpenHead: errors name the problem of a head's file.
func TestOpenHead(t *testing.T) {
	one := func(name string, shape ...int) safetensors.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return safetensors.FromF32(name, shape, make([]float32, n))
	}
	whole := func(shape ...int) safetensors.Tensor {
		return safetensors.Tensor{Name: "layers.0.weight", DType: safetensors.I64, Shape: shape, Data: make([]byte, 8*shape[0]*shape[1])}
	}
	for name, c := range map[string]struct {
		tensors []safetensors.Tensor
		says    string
	}{
		"one layer":       {[]safetensors.Tensor{one("layers.0.weight", 1, 4), one("layers.0.bias", 1)}, ""},
		"no bias":         {[]safetensors.Tensor{one("layers.0.weight", 1, 4)}, "layers.0.bias: missing"},
		"no weight":       {[]safetensors.Tensor{one("layers.3.bias", 1)}, "layers.3.weight: missing"},
		"short bias":      {[]safetensors.Tensor{one("layers.0.weight", 2, 4), one("layers.0.bias", 1)}, "its shape is [1], the weight's is [2 4]"},
		"flat weight":     {[]safetensors.Tensor{one("layers.0.weight", 4), one("layers.0.bias", 1)}, "[out, in] was expected"},
		"no chain":        {[]safetensors.Tensor{one("layers.0.weight", 3, 4), one("layers.0.bias", 3), one("layers.2.weight", 1, 2), one("layers.2.bias", 1)}, "reads 2 numbers, and the one before gives 3"},
		"two numbers out": {[]safetensors.Tensor{one("layers.0.weight", 2, 4), one("layers.0.bias", 2)}, "the head gives 2 numbers"},
		"another network": {[]safetensors.Tensor{one("mlp.fc1.weight", 1, 4)}, "mlp.fc1.weight: the head of an aesthetic predictor"},
		"whole numbers":   {[]safetensors.Tensor{whole(1, 4), one("layers.0.bias", 1)}, "layers.0.weight"},
		"large number":    {[]safetensors.Tensor{one("layers.99999999999999999999.weight", 1, 4)}, "the head of an aesthetic predictor"},
	} {
		dir := t.TempDir()
		if err := safetensors.Write(filepath.Join(dir, HeadFile), c.tensors, nil); err != nil {
			t.Fatal(err)
		}
		_, err := OpenHead(dir)
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), HeadFile)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenHead(t.TempDir()); err == nil {
		t.Error("an empty folder has a head")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, HeadFile), []byte("a pickle"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHead(dir); err == nil {
		t.Error("a pickle has a head")
	}
}
