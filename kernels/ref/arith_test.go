package ref

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exact rounds a·b + c once, by big floats, and flushes.
func exact(a, b, c float32) float32 {
	p := new(big.Float).SetPrec(2000).SetFloat64(float64(a))
	p.Mul(p, new(big.Float).SetPrec(2000).SetFloat64(float64(b)))
	p.Add(p, new(big.Float).SetPrec(2000).SetFloat64(float64(c)))
	r24 := new(big.Float).SetPrec(24).SetMode(big.ToNearestEven).Set(p)
	if least := big.NewFloat(0x1p-126); new(big.Float).Abs(r24).Cmp(least) < 0 {
		return 0
	}
	f, _ := r24.Float32()
	return f
}

func TestFMAIsRoundedOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(span int) float32 {
		m := r.Uint32() & 0x7f_ffff
		if r.IntN(3) == 0 {
			m &= 0x7f_f000 // short numbers make ties
		}
		return math.Float32frombits(r.Uint32()&0x8000_0000 | uint32(127-span/2+r.IntN(span))<<23 | m)
	}
	for _, span := range []int{2, 30, 60, 130, 250} {
		for range 40000 {
			a, b, c := draw(span), draw(span), draw(span)
			got, want := FMA(a, b, c), exact(a, b, c)
			if math.IsInf(float64(want), 0) && got == want {
				continue
			}
			if got != want {
				t.Fatalf("FMA(%x, %x, %x) = %x, want %x", a, b, c, got, want)
			}
		}
	}
}

func TestFMAOfSpecials(t *testing.T) {
	inf, nan, den := float32(math.Inf(1)), float32(math.NaN()), math.Float32frombits(1)
	if FMA(inf, 0, 1) == FMA(inf, 0, 1) || FMA(nan, 1, 1) == FMA(nan, 1, 1) || FMA(inf, 1, -inf) == FMA(inf, 1, -inf) {
		t.Error("a NaN is lost")
	}
	if FMA(inf, 2, 3) != inf || FMA(den, 1, 0) != 0 || FMA(1, 1, den) != 1 || FMA(0x1p-100, 0x1p-30, 0) != 0 {
		t.Error("infinities or denormals")
	}
	if math.Float32bits(FMA(-1, 0, 0)) != 0 || math.Float32bits(FMA(-1, 0, float32(math.Copysign(0, -1)))) != 0x8000_0000 {
		t.Error("signs of zero")
	}
}

func TestBF16(t *testing.T) {
	for _, c := range []struct {
		in   uint32
		want uint16
	}{{0x3f80_8000, 0x3f80}, {0x3f81_8000, 0x3f82}, {0x3f80_8001, 0x3f81}, {0x7f7f_ffff, 0x7f80}, {0x7f80_0001, 0x7fc0}, {0x0000_ffff, 0}, {0x8000_0001, 0x8000}} {
		if got := ToBF16(math.Float32frombits(c.in)); got != c.want {
			t.Errorf("ToBF16(%#x) = %#x, want %#x", c.in, got, c.want)
		}
	}
}

func TestExp(t *testing.T) {
	worst, short := 0.0, 0.0
	for x := float32(-87.3); x < 88.7; x += 0.0113 {
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(Exp(x))-want)/(want*0x1p-24))
	}
	for x := float32(-125); x < 1; x += 0.0017 {
		want := math.Exp2(float64(x))
		short = max(short, math.Abs(float64(Exp2Short(x))/want-1))
	}
	t.Logf("exp: worst error %.2f half-ulps; exp2 short: relative %.2g", worst, short)
	if worst > 2.5 || short > 4e-6 {
		t.Errorf("exp is off by %.2f half-ulps, exp2 short by %.2g", worst, short)
	}
	if Exp(89) != float32(math.Inf(1)) || Exp(-90) != 0 || Exp(0) != 1 || Exp2Short(0) != 1 || Exp2Short(-200) != 0 {
		t.Error("exp at its ends")
	}
	if e := Exp(88.72283); math.IsInf(float64(e), 0) {
		t.Error("exp overflows below its end")
	}
}
