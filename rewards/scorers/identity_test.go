package scorers

import (
	"context"
	"errors"
	"image/color"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/faces"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/onnx"
)

// identity opens the toys: a detector that finds one face in every picture that is not black, and a network whose
// vector is a face's mean colour.
func identity(t *testing.T, o IdentityOptions) (Identity, error) {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	return OpenIdentity("testdata/means.onnx", "testdata/face.onnx", o, onnx.Options{Backend: be})
}

// TestIdentity: a source is itself, others are less alike, a picture without a face has its score, and a source
// without one is an error.
func TestIdentity(t *testing.T) {
	var o IdentityOptions
	o.SetDefaults()
	o.Side, o.Missing = 64, -0.5
	for _, o.Flip = range []bool{false, true} {
		r, err := identity(t, o)
		if err != nil {
			t.Fatal(err)
		}
		source := colours(64, 64, color.RGBA{200, 90, 40, 255}, color.RGBA{180, 80, 40, 255})
		score := func(m *vision.Image, sources ...*vision.Image) (rewards.Score, error) {
			return r.Score(context.Background(), rewards.Item{Image: m, Sources: sources})
		}
		same, err := score(source, source)
		if err != nil || math.Abs(same.Value-1) > 1e-12 || len(same.Evidence) != 1 || *same.Evidence[0].Box != [4]float64{8, 8, 40, 40} {
			t.Errorf("itself: %+v, %v", same, err)
		}
		other, err := score(vision.NewFilled(64, 64, color.RGBA{20, 240, 40, 255}), source)
		if err != nil || other.Value > 0.9 {
			t.Errorf("another: %v, %v", other.Value, err)
		}
		black := vision.New(64, 64)
		if none, err := score(black, source); err != nil || none.Value != -0.5 {
			t.Errorf("no face: %v, %v", none.Value, err)
		}
		if _, err := score(source, black); err == nil || !strings.Contains(err.Error(), "source: there is no face") {
			t.Errorf("a source without a face: %v", err)
		}
		if _, err := score(source); !errors.Is(err, rewards.ErrNoSource) {
			t.Errorf("no source: %v", err)
		}
	}
	o.Side = 100
	if _, err := identity(t, o); err == nil || !strings.Contains(err.Error(), "a multiple of 32") {
		t.Error(err)
	}
}

// TestIdentityOfIResNet: path may be a folder of an IResNet's safetensors, or the file; its memory counts.
func TestIdentityOfIResNet(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	pool := tensor.NewPool(be)
	p, err := nn.New(nn.Options{Pool: pool, Key: rng.New(3), Train: []string{".*"}})
	if err != nil {
		t.Fatal(err)
	}
	faces.NewIResNet(p, faces.Shape{Stem: 4, Blocks: [4]int{1, 2, 1, 1}, Widths: [4]int{4, 4, 4, 4}, Grid: 7, Vector: 8})
	all, err := p.Stored()
	p.Free()
	dir := t.TempDir()
	file := filepath.Join(dir, "iresnet.safetensors")
	if err == nil {
		err = safetensors.Write(file, all, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	bench := rewards.Bench{Device: func() (*features.Device, error) { return features.On(pool, features.F32), nil }}
	o := IdentityOptions{Detector: "testdata/face.onnx", Side: 64, Least: 0.5}
	keys := func(path string) identityKeys {
		k := identityKeys{IdentityKey: IdentityKey{&o}}
		k.Path = path
		return k
	}
	source := colours(64, 64, color.RGBA{200, 90, 40, 255}, color.RGBA{180, 80, 40, 255})
	for _, path := range []string{dir, file} {
		opened, err := IdentityKind.Open(keys(path), bench)
		if err != nil {
			t.Fatal(err)
		}
		other := vision.NewFilled(64, 64, color.RGBA{20, 240, 40, 255})
		got := opened.Judge.Judge(t.Context(), []rewards.Item{{Image: source, Sources: []*vision.Image{source}}, {Image: other, Sources: []*vision.Image{source}}})
		if same, less := got[0].Score.Value, got[1].Score.Value; got[0].Missing != nil || got[1].Missing != nil || math.Abs(same-1) > 1e-12 || less > same-1e-6 {
			t.Errorf("%s: itself %v, another %v: %v, %v", path, same, less, got[0].Missing, got[1].Missing)
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	}
	if takes := IdentityKind.Takes(keys(dir)); takes < 4*112*112*(3+4) {
		t.Errorf("a run takes %d bytes, less than its picture and the first map", takes)
	}
	for _, c := range [][2]string{{t.TempDir(), "name the .onnx file in it"}, {filepath.Join(dir, "lost.safetensors"), "no such file"}} {
		if _, err := IdentityKind.Open(keys(c[0]), bench); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
	o.Side = 100
	if _, err := IdentityKind.Open(keys(dir), bench); err == nil {
		t.Error("a detector of side 100")
	}
}
