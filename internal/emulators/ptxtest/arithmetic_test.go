package ptxtest

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestFMA holds fma32 to exact arithmetic, rounded once.
func TestFMA(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() float32 {
		x := math.Float32frombits(uint32(r.IntN(2))<<31 | uint32(100+r.IntN(56))<<23 | r.Uint32()&0x7fffff)
		if r.IntN(3) == 0 { // few bits: ties
			x = math.Float32frombits(math.Float32bits(x) & 0xfffff000)
		}
		return x
	}
	for range 5000 {
		a, b, c := draw(), draw(), draw()
		if r.IntN(2) == 0 {
			c = -a * b * (1 + float32(r.IntN(3)-1)/(1<<23))
		}
		exact := new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		exact = new(big.Float).SetPrec(2000).Add(new(big.Float).SetPrec(2000).Set(exact), big.NewFloat(float64(c)))
		if want, _ := exact.Float32(); fma32(a, b, c) != want {
			t.Fatalf("%g * %g + %g = %g, want %g", a, b, c, fma32(a, b, c), want)
		}
	}
}

func TestRoundings(t *testing.T) {
	for _, c := range []struct{ in, want uint32 }{
		{0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x7f7fffff, 0x7f80},
		{0x7fc00001, 0x7fff}, {0x80000001, 0x8000}, {0x00018000, 2},
	} {
		if got := bf16(c.in); got != c.want {
			t.Errorf("bf16 of %#x is %#x, want %#x", c.in, got, c.want)
		}
	}
	least := flushed(0x80000001)
	if least != 0 || !math.Signbit(float64(least)) || result(math.Float32frombits(0x007fffff)) != 0 {
		t.Error("denormals are not flushed to the zero of their sign")
	}
	for name, within := range map[string]float64{"ex2.approx.ftz.f32": 0x1p-22, "rcp.approx.ftz.f32": 0x1p-23} {
		w := &warp{p: &program{}, words: make([]words, 2)}
		in := &instruction{args: []operand{{class: word, i: 0}, {class: word, i: 1}}}
		for i := range 10000 {
			x := float32(i)*0.01 - 49.995
			w.words[1][0] = math.Float32bits(x)
			floats[name].run(w, in, 1)
			want := math.Exp2(float64(x))
			if name[0] == 'r' {
				want = 1 / float64(x)
			}
			if got := float64(math.Float32frombits(w.words[0][0])); math.Abs(got-want) > within*math.Abs(want) {
				t.Fatalf("%s of %g is %g, want %g", name, x, got, want)
			}
		}
	}
}
