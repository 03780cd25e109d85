package cpu

import (
	"flag"
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

var (
	shapes     = flag.Uint64("shapes", 300, "how many random shapes to compare with ref")
	shapesFrom = flag.Uint64("shapes-from", 0, "the number of the first")
)

// TestRandomShapes compares random cases of small shapes with ref: a few hundred, or as many as
// -shapes says, from number -shapes-from on.
func TestRandomShapes(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	from, cases := *shapesFrom, *shapes
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
