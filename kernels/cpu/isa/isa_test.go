package isa

import (
	"slices"
	"testing"
)

func TestBest(t *testing.T) {
	all := []Feature{
		{"a", AVX2, true}, {"b", AVX2, true}, {"c", AVX512, true},
		{"d", AVX512, true}, {"e", BF16, true}, {"f", AMX, true},
	}
	want := []Path{Plain, Plain, AVX2, AVX2, AVX512, BF16, AMX}
	for lacking, path := range want {
		have := append([]Feature(nil), all...)
		if lacking < len(have) {
			have[lacking].Present = false
		}
		got := paths(have)
		if got[0] != Plain || got[len(got)-1] != path || len(got) != int(path)+1 {
			t.Errorf("lacking feature %d: paths %s, want those up to %s", lacking, got, path)
		}
	}
	if got := paths(nil); !slices.Equal(got, []Path{Plain}) {
		t.Errorf("no features: paths %s, want plain alone", got)
	}
	if got := paths([]Feature{{"g", NEON, true}}); !slices.Equal(got, []Path{Plain, NEON}) {
		t.Errorf("arm64: paths %s", got)
	}
}

func TestChoose(t *testing.T) {
	t.Setenv("DARKROOM_CPU", "")
	if p, err := Choose(); err != nil || p != Best() {
		t.Errorf("unset: %v, %v; want %v", p, err, Best())
	}
	t.Setenv("DARKROOM_CPU", "plain")
	if p, err := Choose(); err != nil || p != Plain {
		t.Errorf("plain: %v, %v", p, err)
	}
	t.Setenv("DARKROOM_CPU", "sse9")
	if _, err := Choose(); err == nil {
		t.Error("an unknown path was accepted")
	}
	for p := Plain; p <= NEON; p++ {
		t.Setenv("DARKROOM_CPU", p.String())
		if _, err := Choose(); (err == nil) != slices.Contains(Paths(), p) {
			t.Errorf("%s: %v, and the machine has %s", p, err, Paths())
		}
	}
}
