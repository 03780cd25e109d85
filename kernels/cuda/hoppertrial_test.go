//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
)

// TestHopperTrial: kernels on trial have the bits of those that they take the place of.
func TestHopperTrial(t *testing.T) {
	r, _ := newHopper(t)
	t.Setenv(cuda.ModeVariable, "trial")
	trial := openHopper(t)
	if !trial.HopperRuns() || !trial.HopperMultiplies() {
		t.Fatal(trial)
	}
	testHopperTrial(r, trial)
}

// testHopperTrial compares the keys' pass of attention, of which heads are narrow.
func testHopperTrial(r, trial *rig) {
	r.t.Helper()
	for i, c := range []struct {
		sq, sk, h, kh, d int
		causal           bool
		lens             []int32
	}{{96, 96, 1, 1, 64, false, nil}, {190, 140, 1, 1, 64, false, []int32{131, 0}}, {280, 280, 2, 1, 40, true, nil},
		{1, 70, 1, 1, 64, false, nil}, {285, 33, 1, 1, 56, true, []int32{33, 20}}} {
		run := func(r *rig) []byte {
			const b = 2
			r.r = rand.New(rand.NewPCG(uint64(i), 7))
			side := func(s, h int) kernels.Heads {
				span, _ := r.span(kernels.BF16, b*s*h*c.d, 0)
				return kernels.NewHeads(span, b, s, h, c.d)
			}
			result := func(s, h int) kernels.Heads {
				return kernels.NewHeads(r.zeros(kernels.F32, b*s*h*c.d), b, s, h, c.d)
			}
			a := &kernels.AttentionBackward{Attention: kernels.Attention{Math: kernels.MathBF16, Scale: 0.13, Causal: c.causal, KeyLens: c.lens,
				Q: side(c.sq, c.h), K: side(c.sk, c.kh), V: side(c.sk, c.kh), O: result(c.sq, c.h), LSE: r.zeros(kernels.F32, b*c.h*c.sq)},
				DO: side(c.sq, c.h), Delta: r.zeros(kernels.F32, b*c.h*c.sq), DQ: result(c.sq, c.h), DK: result(c.sk, c.kh), DV: result(c.sk, c.kh)}
			if r == trial && c.sq != 1 && !r.WideKeys(&a.Attention) {
				r.t.Errorf("%+v: not by tiles of 96 queries", c)
			}
			r.Attention(&a.Attention)
			r.AttentionBackward(a)
			return append(append(r.bytes(a.DK.Span), r.bytes(a.DV.Span)...), r.bytes(a.DQ.Span)...)
		}
		if !bytes.Equal(run(r), run(trial)) {
			r.t.Errorf("%+v: other gradients", c)
		}
	}
}

// TestHopperTrialIsAsked: a tile on trial computes nothing unless somebody asks for it.
func TestHopperTrialIsAsked(t *testing.T) {
	r, _ := newHopper(t)
	for _, name := range cuda.HopperTrials() {
		if text := fmt.Sprint(cuda.FastestTiles(false)); strings.Contains(text, name) {
			t.Errorf("%s is chosen: %s", name, text)
		}
		if text := fmt.Sprint(cuda.FastestTiles(true)); !strings.Contains(text, name) {
			t.Errorf("%s serves no shape: %s", name, text)
		}
	}
	if _, err := cuda.OpenAs(0, "trials"); err == nil || !strings.Contains(err.Error(), "trial") {
		t.Errorf("%v: %v", r, err)
	}
}
