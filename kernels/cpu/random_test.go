package cpu

import (
	"os"
	"strconv"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// TestFoundShapes are random cases that once differed: sums in fp32 over a k that is no multiple
// of 32, all of whose products are flushed to -0. In the backward they end in +0, in the forward not.
func TestFoundShapes(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	b := NewWith(Options{Path: path, Threads: 1})
	defer b.Close()
	for _, i := range []uint64{30025, 519876, 559533, 762929} {
		if err := kerneltest.Check(kerneltest.Random(1, i), b, int(i%4)); err != nil {
			t.Errorf("%s, number %d: %v", b, i, err)
		}
	}
}

// TestRandomShapes compares random cases of small shapes with ref: a few hundred, or as many as
// DARKROOM_SHAPES says, from number DARKROOM_SHAPES_FROM on.
func TestRandomShapes(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	from, cases := uint64(0), uint64(300)
	for name, n := range map[string]*uint64{"DARKROOM_SHAPES": &cases, "DARKROOM_SHAPES_FROM": &from} {
		if s := os.Getenv(name); s != "" {
			if *n, err = strconv.ParseUint(s, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := NewWith(Options{Path: path, Threads: 1})
	defer b.Close()
	for i := from; i < from+cases; i++ {
		c := kerneltest.Random(1, i)
		if err := kerneltest.Check(c, b, int(i%4)); err != nil {
			t.Errorf("%s: %s %s: %v", b, c.Op, c.Name, err)
		}
	}
	t.Logf("%s: cases %d to %d of seed 1", b, from, from+cases-1)
}
