package pipeline

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestDecoderPrecision: a folder with force_upcast is decoded in fp32, unless the autoencoder's precision is set.
func TestDecoderPrecision(t *testing.T) {
	forced := filepath.Join(t.TempDir(), "forced")
	if err := os.CopyFS(forced, os.DirFS(filepath.Join(recorded, "pipe_sd3"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(forced, "vae", "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	asks := bytes.Replace(text, []byte(`"force_upcast": false`), []byte(`"force_upcast": true`), 1)
	if err := os.WriteFile(path, asks, 0o644); err != nil || bytes.Equal(text, asks) {
		t.Fatalf("force_upcast was not set (%v)", err)
	}
	narrow, wide := BF16, F32
	decoded := func(dir string, o Options) []float32 {
		p := open(t, dir, o)
		at, err := p.Shape(64, 64)
		if err != nil {
			t.Fatal(err)
		}
		x, err := p.Decode(Noise(rng.New(3), at), at)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	free := filepath.Join(recorded, "pipe_sd3")
	in32, in16 := decoded(free, Options{Precision: F32}), decoded(free, Options{Precision: BF16})
	if slices.Equal(in32, in16) {
		t.Fatal("fp32 and bf16 decode the same: the case shows nothing")
	}
	for i, x := range in32 {
		if math.Abs(float64(x-in16[i])) > 0.25 {
			t.Fatalf("number %d is %v in fp32 and %v in bf16", i, x, in16[i])
		}
	}
	for i, c := range []struct {
		dir  string
		o    Options
		want []float32
	}{
		{forced, Options{Precision: BF16}, in32},
		{forced, Options{Precision: BF16, Decoder: &narrow}, in16},
		{free, Options{Precision: BF16, Decoder: &wide}, in32},
		{free, Options{Precision: F32, Decoder: &narrow}, in16},
	} {
		if !slices.Equal(decoded(c.dir, c.o), c.want) {
			t.Errorf("case %d: decoded in the other precision", i)
		}
	}
}
