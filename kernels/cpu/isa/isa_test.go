package isa

import "testing"

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
		if got := best(have); got != path {
			t.Errorf("lacking feature %d: path %s, want %s", lacking, got, path)
		}
	}
	if got := best(nil); got != Plain {
		t.Errorf("no features: path %s, want plain", got)
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
	if Best() < AMX {
		t.Setenv("DARKROOM_CPU", "amx")
		if _, err := Choose(); err == nil {
			t.Error("a path that this CPU lacks was accepted")
		}
	}
}
