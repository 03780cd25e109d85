package sde

import (
	"math"
	"slices"
	"testing"
)

// Shifting by k and then by 1/k goes nowhere; by a and then by b is by a·b. Both ends stay.
func TestShiftsCompose(t *testing.T) {
	for _, x := range []float64{0, 0.01, 0.5, 0.9, 1} {
		if back := Shift(1./3, Shift(3, x)); math.Abs(back-x) > 1e-15 {
			t.Errorf("%v comes back as %v", x, back)
		}
		if two, one := Shift(3, Shift(2, x)), Shift(6, x); math.Abs(two-one) > 1e-15 {
			t.Errorf("%v: %v in two shifts, %v in one", x, two, one)
		}
	}
}

// A dynamic shift of mu is a static one of e^mu, or of mu where it is linear.
func TestDynamicShift(t *testing.T) {
	base := []float64{1, 0.75, 0.5, 0.25}
	for _, linear := range []bool{false, true} {
		dynamic, static := DefaultFlow(), DefaultFlow()
		dynamic.Dynamic, dynamic.Linear, static.Shift = true, linear, math.Exp(1.15)
		if linear {
			static.Shift = 1.15
		}
		a, err := Flow(dynamic, 4, base, 1.15)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Flow(static, 4, base, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Sigmas {
			if math.Abs(a.Sigmas[i]-b.Sigmas[i]) > 1e-15 {
				t.Errorf("linear %v: sigma %d is %v, want %v", linear, i, a.Sigmas[i], b.Sigmas[i])
			}
		}
	}
	if !slices.Equal(base, []float64{1, 0.75, 0.5, 0.25}) {
		t.Error("the given sigmas were changed")
	}
	for tokens, want := range map[int]float64{256: 0.5, 4096: 1.15, 2176: 0.825} {
		if got := DynamicShift(tokens, 256, 4096, 0.5, 1.15); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d tokens shift by %v, want %v", tokens, got, want)
		}
	}
}

// Every grid begins at noise and falls to its end; the stretched one ends at its option's value.
func TestGridsFall(t *testing.T) {
	for steps := 2; steps < 30; steps += 9 {
		for name, s := range map[string]Schedule{"static": Static(3, steps), "unipc": FlowUniPC(3, steps, false), "dpm": FlowDPM(3, steps, false)} {
			if s.Steps() != steps || len(s.Timesteps) != steps || s.Sigmas[0] < 0.99 || s.Sigmas[steps] != 0 {
				t.Errorf("%s, %d steps: %v", name, steps, s.Sigmas)
			}
			for i := range steps {
				if s.Sigmas[i+1] >= s.Sigmas[i] || math.Abs(s.Timesteps[i]-1000*s.Sigmas[i]) > 1 {
					t.Errorf("%s, %d steps: step %d from %v to %v at time %v", name, steps, i, s.Sigmas[i], s.Sigmas[i+1], s.Timesteps[i])
				}
			}
		}
		o := DefaultFlow()
		o.Terminal = 0.02
		s, err := Flow(o, steps, nil, 0)
		if err != nil || math.Abs(s.Sigmas[steps-1]-0.02) > 1e-15 || s.Sigmas[0] != 1 {
			t.Errorf("stretched: %v, %v", s.Sigmas, err)
		}
	}
}

// Heun's schedule has each sigma twice but the first and the terminal one.
func TestFlowHeunRepeats(t *testing.T) {
	s := FlowHeun(3, 5)
	if s.Steps() != 9 || s.Sigmas[9] != 0 {
		t.Fatalf("%v", s.Sigmas)
	}
	for i := 1; i < 9; i += 2 {
		if s.Sigmas[i] != s.Sigmas[i+1] || s.Sigmas[i] >= s.Sigmas[i-1] {
			t.Errorf("sigmas %d and %d: %v, %v", i, i+1, s.Sigmas[i], s.Sigmas[i+1])
		}
	}
}

// Shares of signal fall; a zero-SNR schedule ends at none and keeps the first; a trailing
// schedule begins at the last step.
func TestNoiseLevels(t *testing.T) {
	for _, betas := range []string{"linear", "scaled_linear", "squaredcos_cap_v2"} {
		o := DefaultVP()
		o.Betas = betas
		_, plain, err := o.NoiseLevels()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(plain, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) {
			t.Errorf("%s: shares do not fall", betas)
		}
		o.ZeroSNR = true
		_, zero, err := o.NoiseLevels()
		if err != nil || zero[999] != 0 || math.Abs(zero[0]-plain[0]) > 1e-12 {
			t.Errorf("%s: zero-SNR from %v to %v, %v", betas, zero[0], zero[999], err)
		}
		for spacing, first := range map[string]float64{"leading": 950, "trailing": 999, "linspace": 999} {
			o.Spacing = spacing
			s, before, err := DDIMSteps(o, 20)
			if err != nil || s.Timesteps[0] != first || s.Steps() != 20 {
				t.Fatalf("%s, %s: %v, %v", betas, spacing, s.Timesteps, err)
			}
			for i, p := range before {
				if float64(p) != s.Timesteps[i]-50 || s.AlphaPrev[i] <= s.Alpha[i] {
					t.Errorf("%s, %s: step %d from %v to %d", betas, spacing, i, s.Timesteps[i], p)
				}
			}
		}
	}
}

// The quantile of a Beta(1, 1) is its argument, of a Beta(1, b) 1-(1-p)^(1/b); Beta(a, a) is
// symmetric.
func TestBetaQuantile(t *testing.T) {
	for _, p := range []float64{0, 1e-6, 0.1, 0.5, 0.77, 0.999, 1} {
		for _, c := range []struct{ got, want float64 }{
			{betaQuantile(p, 1, 1), p},
			{betaQuantile(p, 1, 3), 1 - math.Cbrt(1-p)},
			{betaQuantile(p, 0.6, 0.6) + betaQuantile(1-p, 0.6, 0.6), 1},
		} {
			if math.Abs(c.got-c.want) > 1e-9 {
				t.Errorf("at %v: %v, want %v", p, c.got, c.want)
			}
		}
	}
}

// TestTerminalOfOneStep: a grid of one step begins and ends at 1, and cannot be stretched to another end: upstream's is
// 0/0, and every latent after it.
func TestTerminalOfOneStep(t *testing.T) {
	o := DefaultFlow()
	o.Terminal = 0.02
	if s, err := Flow(o, 1, []float64{1}, 0); err == nil {
		t.Errorf("%+v", s)
	}
	if s, err := Flow(o, 2, []float64{1, 0.5}, 0); err != nil || math.Abs(s.Sigmas[1]-0.02) > 1e-15 {
		t.Errorf("%+v, %v", s, err)
	}
}
