//go:build amd64 && !noasm

package attention

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/gemm"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// hard are scores that no draw of ordinary numbers gives.
var hard = []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	-math.MaxFloat32, math.MaxFloat32, 0x1p-126, 126, -126, -126.00001, 0.5, -0.5, 1.5, 130}

// fill draws scores, some of them hard, and some queries that see no key.
func fill(r *rand.Rand, s []float32, wild bool) {
	for i := range s {
		switch {
		case wild && r.IntN(9) == 0:
			s[i] = hard[r.IntN(len(hard))]
		case wild && i%queries%5 == 3:
			s[i] = minusInf
		default:
			s[i] = float32(r.NormFloat64() * 20)
		}
	}
}

// TestPassesOfAVX2 compares the passes between products with those in plain Go, over tails of keys, NaNs, and memory
// beyond.
func TestPassesOfAVX2(t *testing.T) {
	if path, err := isa.Choose(); err != nil || path < isa.AVX2 {
		t.Skip("the CPU has no AVX2, or another path is asked for: ", err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
		have, want := pathOf(isa.AVX2, m, gemm.Blocks{}), goPath(m, gemm.Blocks{})
		for _, keys := range []int{1, 2, 3, 4, 5, 31, 32, 33, 63, 66} {
			for _, wild := range []bool{false, true} {
				var results [2][]uint32
				seed := r.Uint64()
				for i, p := range []path{have, want} {
					draw := rand.New(rand.NewPCG(seed, 1))
					results[i] = append(weighed(draw, p, m, keys, wild), graded(draw, p, m, keys, wild)...)
				}
				if i := differs(results[0], results[1]); i >= 0 {
					t.Errorf("%s, %d keys, wild %t: number %d is %#x, want %#x", m, keys, wild, i, results[0][i], results[1][i])
				}
			}
		}
	}
}

// beyond is how many rows of memory are guarded.
const beyond = 4

// weighed are two blocks of keys one after another, and the end: all that the passes write.
func weighed(r *rand.Rand, p path, m kernels.Math, keys int, wild bool) (all []uint32) {
	const dv = 3
	s, o := make([]float32, (keys+beyond)*queries), make([]float32, (dv+beyond)*queries)
	panel := make([]float32, (roundUp(keys, 32)/2+beyond)*queries)
	w := &weighing{s: unsafe.Pointer(&s[0]), p: unsafe.Pointer(&panel[0]), o: unsafe.Pointer(&o[0]), keys: keys, dv: dv, c: 0.3}
	if m == kernels.MathF32 {
		w.p = w.s
	}
	for i := range queries {
		w.m[i], w.r[i] = minusInf, 1
	}
	for range 2 {
		fill(r, s, wild)
		fill(r, o, false)
		p.weigh(w)
		if m == kernels.MathF32 {
			all = append(all, bitsOf(s)...)
		}
		all = slices.Concat(all, halves(panel), bitsOf(o), bitsOf(w.m[:]), bitsOf(w.l[:]))
	}
	p.end(w, dv)
	return slices.Concat(all, bitsOf(o), bitsOf(w.lse[:]))
}

// graded is all that a pass of the backward writes.
func graded(r *rand.Rand, p path, m kernels.Math, keys int, wild bool) []uint32 {
	s, g := make([]float32, (keys+beyond)*queries), make([]float32, (keys+beyond)*queries)
	panel := make([]float32, (roundUp(keys, 32)/2+beyond)*queries)
	x := &grading{s: unsafe.Pointer(&s[0]), g: unsafe.Pointer(&g[0]), keys: keys, c: 0.3, scale: 0.125}
	x.p, x.d, x.panel = x.s, x.g, unsafe.Pointer(&panel[0])
	if m == kernels.MathF32 {
		x.panel = x.g
	}
	fill(r, s, wild)
	fill(r, g, wild)
	fill(r, x.delta[:], false)
	for i := range queries {
		if x.shift[i] = -20; i%7 == 2 {
			x.shift[i] = minusInf
		}
	}
	p.grade(x)
	return slices.Concat(bitsOf(s), bitsOf(g), halves(panel))
}

func bitsOf(x []float32) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x)) }

// halves are the numbers of a panel of bf16, widened.
func halves(panel []float32) (all []uint32) {
	for _, u := range bitsOf(panel) {
		all = append(all, u&0xffff0000, u<<16)
	}
	return all
}

// differs is the first place where two results do, -1 for none. A NaN has any pattern of bits.
func differs(got, want []uint32) int {
	for i := range got {
		none := func(u uint32) bool { return u&0x7fffffff > 0x7f800000 }
		if got[i] != want[i] && !(none(got[i]) && none(want[i])) {
			return i
		}
	}
	return -1
}
