package rng

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"testing"
)

// TestKeysDiffer derives keys along many paths and finds no two equal.
func TestKeysDiffer(t *testing.T) {
	seen := map[Key]string{}
	add := func(k Key, name string) {
		if other, dup := seen[k]; dup {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[k] = name
	}
	for seed := range uint64(3) {
		run := New(seed)
		add(run, fmt.Sprint("seed ", seed))
		for _, p := range []Purpose{"", "a", "aa", "a\x00", "start noise", "step noise", "step noise and more"} {
			k := run.With(p)
			add(k, fmt.Sprintf("%d %q", seed, p))
			for i := range 4 {
				add(k.Iteration(i), fmt.Sprint(seed, p, " iteration ", i))
				add(k.Prompt(uint64(i)), fmt.Sprint(seed, p, " prompt ", i))
				add(k.Sample(i), fmt.Sprint(seed, p, " sample ", i))
				add(k.Attempt(i), fmt.Sprint(seed, p, " attempt ", i))
				add(k.Step(i), fmt.Sprint(seed, p, " step ", i))
				add(k.Branch(i), fmt.Sprint(seed, p, " branch ", i))
				add(k.Step(i).Branch(1), fmt.Sprint(seed, p, " branch of step ", i))
				add(k.Branch(1).Step(i), fmt.Sprint(seed, p, " step of branch ", i))
			}
		}
	}
}

// TestKeysAreFixed compares the derivation with recorded keys: a change of these numbers changes every picture of
// every run.
func TestKeysAreFixed(t *testing.T) {
	k := New(7).With("step noise").Iteration(3).Prompt(17).Sample(2).Attempt(0).Step(5).Branch(1)
	want := Key{0xc30eb85db5b5b6a4, 0x38b3420cad11fa38}
	if k != want {
		t.Errorf("got %#x, want %#x", k, want)
	}
	z := make([]float32, 1<<14)
	k.Normal(z, 0)
	h := fnv.New64a()
	for _, x := range z {
		h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
	}
	if got, want := h.Sum64(), uint64(0x90f12e10ae7b7e1f); got != want {
		t.Errorf("hash of the normals' bits %#x, want %#x; the first are %g", got, want, z[:4])
	}
}

// TestNeighboursAreIndependent correlates normals of coordinates that differ by
// one in one place, element by element.
func TestNeighboursAreIndependent(t *testing.T) {
	const n = 1 << 14
	base := New(1).With("test").Iteration(2).Prompt(3).Sample(4).Step(5)
	draw := func(k Key) []float32 {
		z := make([]float32, n)
		k.Normal(z, 0)
		return z
	}
	a := draw(base)
	for name, k := range map[string]Key{
		"seed":      New(2).With("test").Iteration(2).Prompt(3).Sample(4).Step(5),
		"purpose":   New(1).With("tesu").Iteration(2).Prompt(3).Sample(4).Step(5),
		"iteration": New(1).With("test").Iteration(3).Prompt(3).Sample(4).Step(5),
		"prompt":    New(1).With("test").Iteration(2).Prompt(4).Sample(4).Step(5),
		"sample":    New(1).With("test").Iteration(2).Prompt(3).Sample(5).Step(5),
		"step":      New(1).With("test").Iteration(2).Prompt(3).Sample(4).Step(6),
		"deeper":    base.Branch(0),
		"stream":    {base.Philox, base.Stream + 1},
		"key":       {base.Philox + 1, base.Stream},
	} {
		b := draw(k)
		for _, shift := range []int{0, 1, 2, 4} {
			var sum, squares float64
			for i := shift; i < n; i++ {
				p := float64(a[i]) * float64(b[i-shift])
				sum += p
				squares += float64(a[i]*a[i]-1) * float64(b[i-shift]*b[i-shift]-1)
			}
			// Both have mean 0; deviations sqrt(n) and 2·sqrt(n).
			if r := sum / math.Sqrt(n); math.Abs(r) > 4.5 {
				t.Errorf("%s, shift %d: values correlate, %.1f deviations", name, shift, r)
			}
			if r := squares / (2 * math.Sqrt(n)); math.Abs(r) > 4.5 {
				t.Errorf("%s, shift %d: squares correlate, %.1f deviations", name, shift, r)
			}
		}
	}
}
