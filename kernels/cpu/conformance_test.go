package cpu

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

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
