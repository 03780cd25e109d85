package noise

import (
	"fmt"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// eachPath runs f on every path that this CPU has.
func eachPath(t *testing.T, f func(t *testing.T, p isa.Path)) {
	t.Logf("this CPU's paths: %s", isa.Paths())
	for _, p := range isa.Paths() {
		t.Run(p.String(), func(t *testing.T) {
			f(t, p)
		})
	}
}

// TestBits compares with rng: every length up to several groups and every place in a block, around a carry of the
// counter, and guards the memory beside.
func TestBits(t *testing.T) {
	k := rng.New(9).With("bits")
	const guard = float32(12345)
	eachPath(t, func(t *testing.T, p isa.Path) {
		for _, base := range []uint64{0, 4<<32 - 40, math.MaxUint64 - 300} {
			for n := range 200 {
				start := base + uint64(n%7)
				want, got := make([]float32, n), make([]float32, n+2)
				got[0], got[n+1] = guard, guard
				k.Normal(want, start)
				Normal(p, k, got[1:n+1], start)
				for i, w := range want {
					if math.Float32bits(got[i+1]) != math.Float32bits(w) {
						t.Fatalf("normal %d of %d from %d: %g, want %g", i, n, start, got[i+1], w)
					}
				}
				if got[0] != guard || got[n+1] != guard {
					t.Fatalf("%d normals from %d: wrote beside", n, start)
				}
				words, fast := make([]uint32, n), make([]uint32, n)
				k.Words(words, start)
				Words(p, k, fast, start)
				for i, w := range words {
					if fast[i] != w {
						t.Fatalf("word %d of %d from %d: %08x, want %08x", i, n, start, fast[i], w)
					}
				}
			}
		}
	})
}

// TestManyBits compares a million normals of several keys, so that all branches
// of the reductions and rare words come up, and calls that are split.
func TestManyBits(t *testing.T) {
	const n = 1 << 18
	want, got := make([]float32, n), make([]float32, n)
	for seed := range uint64(4) {
		k := rng.New(seed).With("many").Step(3)
		k.Normal(want, 1)
		eachPath(t, func(t *testing.T, p isa.Path) {
			clear(got)
			Normal(p, k, got, 1)
			for i, w := range want {
				if math.Float32bits(got[i]) != math.Float32bits(w) {
					t.Fatalf("seed %d, normal %d: %g, want %g", seed, i, got[i], w)
				}
			}
		})
	}
}

// TestRareWords compares at words where a reduction or a conversion turns: they
// come up once in a thousand million draws, so their places were searched for.
func TestRareWords(t *testing.T) {
	k := rng.New(9).With("rare")
	for at, word := range map[uint64]uint32{
		1688426860: 0x00000000, 3271283070: 0x00000001, // the largest radii
		234815852: 0xfffffffd, 78680360: 0xffffff81, // the smallest; rounds to 2^32
		4255671672: 0xb504f332, 1402734428: 0xb504f333, 6843181710: 0xb504f334, // √½
		6056134973: 0x60000000, 82629797: 0x1ffffffc, 163386623: 0xdffffffd, 422201763: 0xe0000002, // eighths of a turn
	} {
		if got := k.Word(at); got != word {
			t.Fatalf("word %d is %08x, not %08x: it must be searched for anew", at, got, word)
		}
		want, got := make([]float32, 256), make([]float32, 256)
		start := at&^3 - 128
		k.Normal(want, start)
		eachPath(t, func(t *testing.T, p isa.Path) {
			Normal(p, k, got, start)
			for i, w := range want {
				if math.Float32bits(got[i]) != math.Float32bits(w) {
					t.Fatalf("around word %08x, normal %d: %g, want %g", word, i, got[i], w)
				}
			}
		})
	}
}

func BenchmarkNoise(b *testing.B) {
	words, normals := make([]uint32, 1<<14), make([]float32, 1<<14)
	k := rng.New(1)
	for _, p := range isa.Paths() {
		for name, f := range map[string]func(){
			"words":   func() { Words(p, k, words, 0) },
			"normals": func() { Normal(p, k, normals, 0) },
		} {
			b.Run(fmt.Sprintf("%s/%s", name, p), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(words)), "ns/one")
			})
		}
	}
}
