package cpu

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// TestRecordedBits holds the path to the digests that were recorded from ref, on another machine
// perhaps.
func TestRecordedBits(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	want, err := kerneltest.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	b := NewWith(Options{Path: path, Threads: 2})
	defer b.Close()
	got, err := kerneltest.Digests(b)
	if err != nil {
		t.Fatal(err)
	}
	for name, sum := range want {
		if got[name] != sum {
			t.Errorf("%s, %s: digest %s, recorded %s", b, name, got[name], sum)
		}
	}
}

// TestConformance holds the path that DARKROOM_CPU names, or the best one, to ref.
func TestConformance(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	for _, threads := range []int{1, 2} {
		b := NewWith(Options{Path: path, Threads: threads})
		defer b.Close()
		t.Run(b.String(), func(t *testing.T) { kerneltest.Run(t, b) })
	}
}
