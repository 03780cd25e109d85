package portable

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// function is one of this package, its twin in package math, and where its arguments are drawn.
type function struct {
	ours, math func(float64) float64
	low, high  float64
	logarithms bool // arguments are even in their logarithm
}

var functions = map[string]function{
	"Exp":           {Exp, math.Exp, -750, 715, false},
	"Exp, ratios":   {Exp, math.Exp, -1e-2, 1e-2, false},
	"Log":           {Log, math.Log, -700, 700, true},
	"Log, near 1":   {Log, math.Log, -0.5, 0.5, true},
	"Log2":          {Log2, math.Log2, -700, 700, true},
	"Log1p":         {Log1p, math.Log1p, -0.9999999, 10, false},
	"Log1p, small":  {Log1p, math.Log1p, -40, 3, true},
	"Log1p, large":  {Log1p, math.Log1p, 0, 60, true},
	"Expm1":         {Expm1, math.Expm1, -60, 715, false},
	"Expm1, small":  {Expm1, math.Expm1, -40, 0, true},
	"Expm1, near 0": {Expm1, math.Expm1, -2, 2, false},
	"Sin":           {Sin, math.Sin, -100, 100, false},
	"Sin, far":      {Sin, math.Sin, -1 << 29, 1 << 29, false},
	"Cos":           {Cos, math.Cos, -100, 100, false},
	"Erf":           {Erf, math.Erf, -7, 7, false},
	"Erf, small":    {Erf, math.Erf, -40, 0, true},
	"Erfinv":        {Erfinv, math.Erfinv, -1, 1, false},
	"Log10":         {Log10, math.Log10, -700, 700, true},
	"Hypot":         {of(Hypot, 3), of(math.Hypot, 3), -40, 40, true},
	"Atan2":         {of(Atan2, 1.5), of(math.Atan2, 1.5), -10, 10, false},
	"Atan2, left":   {to(Atan2, -0.7), to(math.Atan2, -0.7), -10, 10, false},
	"Pow 0.3":       {to(Pow, 0.3), to(math.Pow, 0.3), -50, 50, true},
	"Pow 7":         {to(Pow, 7), to(math.Pow, 7), -50, 50, true},
	"Pow -2.6":      {to(Pow, -2.6), to(math.Pow, -2.6), -50, 50, true},
	"Pow of 0.999":  {of(Pow, 0.999), of(math.Pow, 0.999), -1e5, 1e5, false},
}

// to fixes the second argument of a function, of the first.
func to(f func(x, y float64) float64, y float64) func(float64) float64 {
	return func(x float64) float64 { return f(x, y) }
}

func of(f func(x, y float64) float64, x float64) func(float64) float64 {
	return func(y float64) float64 { return f(x, y) }
}

// each calls f with n arguments of a function, the same in every build.
func (o function) each(n int, f func(x float64)) {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		x := o.low + float64(r.Float64()*(o.high-o.low))
		if o.logarithms {
			x = Exp(x)
		}
		f(x)
	}
}

// TestBits compares with package math where its functions are compiled without fused multiply-adds, but for Exp, whose
// assembly has them by name where the CPU does.
func TestBits(t *testing.T) {
	if runtime.GOARCH != "amd64" || level() != "v1" && level() != "v2" {
		t.Skipf("package math is compiled with fused multiply-adds on %s, GOAMD64=%s", runtime.GOARCH, level())
	}
	if math.Exp(-0.8499984770516383) != Exp(-0.8499984770516383) {
		t.Skip("the CPU has no fused multiply-adds: math.Exp has other bits here")
	}
	for name, o := range functions {
		different, first := 0, ""
		o.each(200000, func(x float64) {
			if a, b := o.ours(x), o.math(x); math.Float64bits(a) != math.Float64bits(b) && a == a {
				if different++; first == "" {
					first = fmt.Sprintf("at %v: %v, math has %v", x, a, b)
				}
			}
		})
		if different > 0 {
			t.Errorf("%s: %d of 200000 differ, first %s", name, different, first)
		}
	}
}

// level is GOAMD64 of this build.
func level() string {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "GOAMD64" {
			return s.Value
		}
	}
	return ""
}

// TestDigests holds every build, on every architecture, to the same bits.
func TestDigests(t *testing.T) {
	for name, o := range functions {
		h := fnv.New64a()
		o.each(50000, func(x float64) {
			h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(o.ours(x))))
		})
		if got := fmt.Sprintf("%016x", h.Sum64()); got != digests[name] {
			t.Errorf("%q: %q, recorded %q", name, got, digests[name])
		}
	}
}

var digests = map[string]string{
	"Atan2":         "ea9211cad1b9e690",
	"Atan2, left":   "b068be4eac62b8b4",
	"Hypot":         "71448f8572a34b95",
	"Log10":         "e70e9320501e8301",
	"Cos":           "247d2d2029c9d84b",
	"Erfinv":        "064214ab7bb4be38",
	"Exp":           "75e35ce5ec971228",
	"Exp, ratios":   "4a1e070d458fb294",
	"Expm1":         "399186c42467dfa1",
	"Expm1, near 0": "49b5032566f50665",
	"Expm1, small":  "9b0403cc8cf01f94",
	"Log":           "1680dae9a7a95711",
	"Log, near 1":   "9e9bf23fbbd137df",
	"Erf":           "e5af35c2e9656c09",
	"Erf, small":    "99c24a2a6ebfd935",
	"Log1p":         "bd43b278c9a480e9",
	"Log1p, large":  "ae5d9e8d57e52404",
	"Log1p, small":  "dd5e507fd7363c0c",
	"Log2":          "b4d89dae00c9bc64",
	"Pow -2.6":      "2afb0173b28d8bf9",
	"Pow 0.3":       "c37850714a9859c1",
	"Pow 7":         "0ee4dc177b578d3a",
	"Pow of 0.999":  "1b40f5d46d665a5d",
	"Sin":           "37c58b88cb838c33",
	"Sin, far":      "a9ece3a0fefda6b1",
}

// TestAccuracy holds Exp, Expm1, Log and Log1p to math/big.
func TestAccuracy(t *testing.T) {
	for name, limit := range map[string]struct {
		exact func(x float64) *big.Float
		ulps  float64
	}{
		"Exp":           {exactExp, 1.5}, // 1.32 at 120.3: the squarings add to the last place
		"Exp, ratios":   {exactExp, 1},
		"Expm1":         {exactExpm1, 1},
		"Expm1, small":  {exactExpm1, 1},
		"Expm1, near 0": {exactExpm1, 1},
		"Log":           {exactLog, 1},
		"Log, near 1":   {exactLog, 1},
		"Log1p":         {exactLog1p, 1},
		"Log1p, small":  {exactLog1p, 1},
	} {
		o, worst, at := functions[name], 0.0, 0.0
		o.each(2000, func(x float64) {
			got := o.ours(x)
			if math.IsInf(got, 0) || math.Abs(got) < 1e-307 {
				return // beyond the normal numbers
			}
			if e := ulps(got, limit.exact(x)); e > worst {
				worst, at = e, x
			}
		})
		t.Logf("%s: %.3f units in the last place, at %v", name, worst, at)
		if worst > limit.ulps {
			t.Errorf("%s: %.3f units in the last place at %v", name, worst, at)
		}
	}
}

const precision = 200

func number(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// ulps is how far a value is from the exact one, in units of its last place.
func ulps(got float64, exact *big.Float) float64 {
	near, _ := exact.Float64()
	_, e := math.Frexp(near)
	d, _ := new(big.Float).Sub(number(got), exact).Float64()
	return math.Abs(math.Ldexp(d, 53-e))
}

// exactExp is the Taylor series at x/2^k, squared k times.
func exactExp(x float64) *big.Float { return power(number(x)) }

func power(x *big.Float) *big.Float {
	const halvings = 20
	r := new(big.Float).SetMantExp(x, -halvings)
	sum, term := number(1), number(1)
	for i := 1; i < 40; i++ {
		term.Mul(term, r).Quo(term, number(float64(i)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

func exactExpm1(x float64) *big.Float {
	if math.Abs(x) > 1e-3 {
		return new(big.Float).Sub(exactExp(x), number(1))
	}
	sum, term := number(0), number(1)
	for i := 1; i < 30; i++ {
		term.Mul(term, number(x)).Quo(term, number(float64(i)))
		sum.Add(sum, term)
	}
	return sum
}

// exactLog improves a first value by Newton's steps on e^y = v.
func exactLog(x float64) *big.Float { return logarithm(number(x), math.Log(x)) }

func exactLog1p(x float64) *big.Float {
	return logarithm(new(big.Float).Add(number(1), number(x)), math.Log1p(x))
}

func logarithm(v *big.Float, start float64) *big.Float {
	y := number(start)
	for range 3 {
		e := power(y)
		y.Add(y, new(big.Float).Sub(new(big.Float).Quo(v, e), number(1)))
	}
	return y
}

func TestSpecial(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1e300, -1e300, 5e-324, -5e-324, 1e-310,
		710, -746, -745.2, 1 << 53, 1 << 63, 1 << 62, inf, -inf, nan}
	same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }
	for name, o := range functions {
		for _, x := range values {
			near := math.Abs(o.ours(x)-o.math(x)) <= 4e-16*math.Abs(o.math(x))
			odd := x > 0 && x < 1e-307 && !strings.HasPrefix(name, "Exp") // of denormals, math's assembly has a wrong Log
			far := (strings.HasPrefix(name, "Sin") || name == "Cos") && math.Abs(x) > 1<<29
			if !same(o.ours(x), o.math(x)) && !near && !odd && !far {
				t.Errorf("%s of %v: %v, math has %v", name, x, o.ours(x), o.math(x))
			}
		}
	}
	for _, x := range values {
		for _, y := range values {
			for name, f := range map[string][2]func(x, y float64) float64{"Pow": {Pow, math.Pow}, "Hypot": {Hypot, math.Hypot}, "Atan2": {Atan2, math.Atan2}} {
				a, b := f[0](x, y), f[1](x, y)
				if !same(a, b) && !(math.Abs(a-b) <= 4e-16*math.Abs(b)) {
					t.Errorf("%s(%v, %v): %v, math has %v", name, x, y, a, b)
				}
			}
		}
	}
}

func BenchmarkExp(b *testing.B) {
	sum := 0.0
	for i := range b.N {
		sum += Exp(float64(i%100) * -0.37)
	}
	_ = sum
}

func BenchmarkMathExp(b *testing.B) {
	sum := 0.0
	for i := range b.N {
		sum += math.Exp(float64(i%100) * -0.37)
	}
	_ = sum
}
