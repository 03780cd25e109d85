package scorers

import (
	"context"
	"errors"
	"image/color"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
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
