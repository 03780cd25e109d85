package sde

import (
	"math"
	"testing"
)

// TestNoising: a network's target leads back from the noised sample to the clean one, and a ladder's
// noised sample lies where its sampler meets it.
func TestNoising(t *testing.T) {
	const clean, noise = 0.8, -1.3
	o := DefaultVP()
	o.Betas, o.BetaStart, o.BetaEnd = "scaled_linear", 0.00085, 0.012
	_, kept, err := o.NoiseLevels()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Prediction{Epsilon, VPredict, Sample} {
		at, err := o.Noising(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, share := range []float64{0, 0.0005, 0.25, 0.9, 0.9999, 1} {
			n := at(share)
			if want := min(int(share*1000), 999); n.Time != float64(want) {
				t.Errorf("%s: share %v is step %v, not %d", p, share, n.Time, want)
			}
			a := kept[int(n.Time)]
			x := Mixed(n.Clean, n.Noise, []float64{clean}, []float64{noise})[0]
			if want := math.Sqrt(a)*clean + math.Sqrt(1-a)*noise; math.Abs(x-want) > 1e-15 {
				t.Errorf("%s at %v: %v, not %v", p, share, x, want)
			}
			out := Mixed(n.OfClean, n.OfNoise, []float64{clean}, []float64{noise})[0]
			of, _, err := p.split(a)
			if err != nil {
				t.Fatal(err)
			}
			back := of.Out[0] * out
			if len(of.X) > 0 {
				back += of.X[0] * x
			}
			if math.Abs(back-clean) > 1e-9 {
				t.Errorf("%s at %v: leads back to %v, not %v", p, share, back, clean)
			}
		}
	}
	if _, err := o.Noising("score"); err == nil {
		t.Error("a prediction that is not known")
	}
	if n := FlowNoising(0.25, 1000); n != (Noising{Time: 250, Clean: 0.75, Noise: 0.25, OfClean: -1, OfNoise: 1}) {
		t.Errorf("%+v", n)
	}
}

// The middle of the normal is the middle of time, mirrored draws are mirrored times, and
// a shift moves them towards noise.
func TestLogitNormal(t *testing.T) {
	if got := LogitNormal(0, 0, 1, 1); got != 0.5 {
		t.Errorf("the middle is %v", got)
	}
	for _, u := range []float64{0.3, 1, 2.5} {
		if sum := LogitNormal(u, 0, 1, 1) + LogitNormal(-u, 0, 1, 1); math.Abs(sum-1) > 1e-15 {
			t.Errorf("±%v add up to %v", u, sum)
		}
		if LogitNormal(u, 0, 1, 3) <= LogitNormal(u, 0, 1, 1) {
			t.Errorf("a shift of 3 does not move %v towards noise", u)
		}
	}
}
