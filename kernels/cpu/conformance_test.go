package cpu

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
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
	one, two := NewWith(Options{Path: path, Threads: 1}), NewWith(Options{Path: path, Threads: 2})
	defer one.Close()
	defer two.Close()
	kerneltest.Run(t, one, two)
}

// TestOffloader: a weight that is stored is read where it lies, by the rank that stored it and by others.
func TestOffloader(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	b, other := NewWith(Options{Path: path, Threads: 1}), NewWith(Options{Path: path, Threads: 1})
	defer b.Close()
	defer other.Close()
	kerneltest.RunOffloader(t, b, kernels.Home{})
	kerneltest.RunOffloader(t, b, kernels.Home{Peer: other})
	x := b.Alloc(4)
	w, err := b.Store(b.Pack(kernels.NewMat(kernels.Span{Buf: x, Len: 1, DType: kernels.F32}, 1, 1), kernels.MathF32), kernels.Home{})
	if err != nil {
		t.Fatal(err)
	}
	if got := other.Fetch(w); got.Buf != w.Buf {
		t.Error("another rank reads other memory than that of the rank that stored the weight")
	}
	b.Discard(w)
	b.Free(x)
}

// TestFoundShapes are random cases that once differed: sums in fp32 over a k that is not a multiple of 32, all of
// whose products are flushed to -0. In the backward they end in +0, in the forward not. And scores of 2^40, of whose
// rests the powers are negative: their sum has no logarithm.
func TestFoundShapes(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	b := NewWith(Options{Path: path, Threads: 1})
	defer b.Close()
	for _, i := range []uint64{30025, 519876, 559533, 762929, 5334, 8115} {
		if err := kerneltest.Check(kerneltest.Random(1, i), b, int(i%4)); err != nil {
			t.Errorf("%s, number %d: %v", b, i, err)
		}
	}
	// The largest logits are zeros of both signs.
	for _, i := range []uint64{59045, 138190} {
		if err := kerneltest.Check(kerneltest.RandomOf("draw", 1, i), b, int(i%4)); err != nil {
			t.Errorf("%s, draw %d: %v", b, i, err)
		}
	}
}

var (
	shapes     = flag.Uint64("shapes", 300, "how many random shapes to compare with ref")
	shapesFrom = flag.Uint64("shapes-from", 0, "the number of the first")
	shapesOf   = flag.String("shapes-of", "", "a family: "+strings.Join(kerneltest.Families(), ", ")+"; none: all operations")
)

// TestRandomShapes compares random cases of small shapes with ref: a few hundred, or as many as
// -shapes says, from number -shapes-from on. It says how many there were of each operation.
func TestRandomShapes(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	random := kerneltest.Random
	if family := *shapesOf; family != "" {
		if !slices.Contains(kerneltest.Families(), family) {
			t.Fatalf("-shapes-of %q: families are %s", family, strings.Join(kerneltest.Families(), ", "))
		}
		random = func(seed, i uint64) kerneltest.Case { return kerneltest.RandomOf(family, seed, i) }
	}
	from, cases := *shapesFrom, *shapes
	b := NewWith(Options{Path: path, Threads: 1})
	defer b.Close()
	ran := map[string]int{}
	for i := from; i < from+cases; i++ {
		c := random(1, i)
		ran[c.Op]++
		if err := kerneltest.Check(c, b, int(i%4)); err != nil {
			t.Errorf("%s: %s %s: %v", b, c.Op, c.Name, err)
		}
	}
	var all []string
	for _, op := range slices.Sorted(maps.Keys(ran)) {
		all = append(all, fmt.Sprintf("%s %d", op, ran[op]))
	}
	t.Logf("%s: cases %d to %d of seed 1: %s", b, from, from+cases-1, strings.Join(all, ", "))
}
