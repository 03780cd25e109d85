package safetensors

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// ieee is the value of a float of the given widths, in float64, which holds them all.
func ieee(bits uint64, expBits, fracBits int) float64 {
	sign, bias := 1.0, 1<<(expBits-1)-1
	if bits>>(expBits+fracBits)&1 == 1 {
		sign = -1
	}
	exp := int(bits>>fracBits) & (1<<expBits - 1)
	frac := float64(bits&(1<<fracBits-1)) / float64(int(1)<<fracBits)
	switch {
	case exp == 1<<expBits-1 && frac != 0:
		return math.NaN()
	case exp == 1<<expBits-1:
		return math.Inf(int(sign))
	case exp == 0:
		return sign * math.Ldexp(frac, 1-bias)
	}
	return sign * math.Ldexp(1+frac, exp-bias)
}

func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

func TestWideningIsExact(t *testing.T) {
	half := Tensor{DType: F16, Shape: []int{1 << 16}, Data: make([]byte, 2<<16)}
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(half.Data[2*i:], uint16(i))
	}
	bf16 := half
	bf16.DType = BF16
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	e4m3 := func(i uint64) float64 {
		if i&0x7f >= 0x78 && i&0x7f < 0x7f { // the exponent that IEEE gives to infinities
			return math.Copysign(256*(1+float64(i&7)/8), 127.5-float64(i))
		}
		return ieee(i, 4, 3)
	}
	for _, c := range []struct {
		t    Tensor
		want func(uint64) float64
	}{
		{half, func(i uint64) float64 { return ieee(i, 5, 10) }},
		{bf16, func(i uint64) float64 { return ieee(i, 8, 7) }},
		{Tensor{DType: F8E5M2, Data: bytes}, func(i uint64) float64 { return ieee(i, 5, 2) }},
		{Tensor{DType: F8E4M3, Data: bytes}, e4m3},
	} {
		got, err := c.t.Float32(nil)
		if err != nil || len(got) != c.t.Len() {
			t.Fatal(len(got), err)
		}
		for i, g := range got {
			if want := c.want(uint64(i)); !same(float64(g), want) {
				t.Fatalf("%s %#x = %g, want %g", c.t.DType, i, g, want)
			}
		}
	}
}

// nearestBF16 rounds by big.Float with 8 bits of precision, or fewer where bf16 is subnormal.
func nearestBF16(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || x != x {
		return x
	}
	_, exp := math.Frexp(x) // |x| = f·2^exp, f in [1/2, 1)
	prec := 8
	if exp < -125 {
		prec = 8 - (-125 - exp)
	}
	if prec < 1 { // below half the smallest subnormal, or between it and the smallest
		y := math.Copysign(0, x)
		if prec == 0 && math.Abs(x) > 0x1p-134 {
			y = math.Copysign(0x1p-133, x)
		}
		return y
	}
	y, _ := new(big.Float).SetMode(big.ToNearestEven).SetPrec(uint(prec)).SetFloat64(x).Float64()
	if math.Abs(y) >= 0x1p128 {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return y
}

func TestNarrowingRoundsOnceToEven(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, -math.MaxFloat64,
		math.MaxFloat32, 0x1.fep127, 0x1.ffp127, 0x1.fefffp127, 0x1p-126, 0x1p-133, 0x1p-134, -0x1p-134, 0x1.8p-134, 0x1.8p-133, 0x1p-149, 0x1p-150, 0x1p-1074,
		1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8 - 0x1p-40, 1 + 0x3p-8 - 0x1p-50, 1 + 0x1p-24 + 0x1p-50}
	for range 50000 {
		values = append(values, math.Ldexp(2*r.Float64()-1, r.IntN(290)-155))
		tie := math.Ldexp(float64(2*r.IntN(1<<8)+1), r.IntN(270)-145)
		values = append(values, tie, math.Nextafter(tie, 0), -math.Nextafter(tie, math.Inf(1)))
	}
	wide := Tensor{DType: F64, Data: make([]byte, 8*len(values))}
	single := Tensor{DType: F32, Data: make([]byte, 4*len(values))}
	for i, v := range values {
		binary.LittleEndian.PutUint64(wide.Data[8*i:], math.Float64bits(v))
		binary.LittleEndian.PutUint32(single.Data[4*i:], math.Float32bits(float32(v)))
	}
	from64, err := wide.BF16(nil)
	if err != nil {
		t.Fatal(err)
	}
	from32, err := single.BF16(make([]uint16, len(values)))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if got, want := ieee(uint64(from64[i]), 8, 7), nearestBF16(v); !same(got, want) {
			t.Fatalf("F64 %x gives %x, want %x", v, got, want)
		}
		if got, want := ieee(uint64(from32[i]), 8, 7), nearestBF16(float64(float32(v))); !same(got, want) {
			t.Fatalf("F32 %x gives %x, want %x", float32(v), got, want)
		}
	}
	back, err := wide.Float32(nil)
	for i, v := range values {
		if err != nil || !same(float64(back[i]), float64(float32(v))) {
			t.Fatalf("%g as float32 is %g, %v", v, back[i], err)
		}
	}
}

func TestBF16FromSmallerFloats(t *testing.T) {
	for _, c := range []struct {
		d    DType
		data string
		want []uint16
	}{
		{BF16, "\x80\x3f\x01\x00", []uint16{0x3f80, 1}},
		{F16, "\x00\x3c\x01\x00\xff\x7b\x00\xfc", []uint16{0x3f80, 0x3380, 0x4780, 0xff80}}, // 1, 2^-24, 65504 (to 65536), -inf
		{F8E4M3, "\x38\x7e\x01", []uint16{0x3f80, 0x43e0, 0x3b00}},                          // 1, 448, 2^-9
		{F8E5M2, "\x3c\x01", []uint16{0x3f80, 0x3780}},                                      // 1, 2^-16
	} {
		got, err := Tensor{DType: c.d, Data: []byte(c.data)}.BF16(nil)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %x, %v, want %x", c.d, got, err, c.want)
		}
	}
}

func TestInt64(t *testing.T) {
	for d, data := range map[DType]string{
		I64: "\xfe\xff\xff\xff\xff\xff\xff\xff\x05\x00\x00\x00\x00\x00\x00\x00", I32: "\xfe\xff\xff\xff\x05\x00\x00\x00",
		I16: "\xfe\xff\x05\x00", I8: "\xfe\x05",
	} {
		if got, err := (Tensor{DType: d, Data: []byte(data)}).Int64(nil); err != nil || !slices.Equal(got, []int64{-2, 5}) {
			t.Errorf("%s: %v, %v", d, got, err)
		}
	}
	for d, data := range map[DType]string{U32: "\xff\xff\xff\xff", U16: "\xff\xff", U8: "\xff", BOOL: "\x01"} {
		got, err := Tensor{DType: d, Data: []byte(data)}.Int64(nil)
		if want := int64(1)<<d.Bits() - 1; err != nil || got[0] != want && (d != BOOL || got[0] != 1) {
			t.Errorf("%s: %v, %v", d, got, err)
		}
	}
}

func TestConversionsRefuse(t *testing.T) {
	ints, floats, packed := Tensor{Name: "a.b", DType: I32, Data: make([]byte, 4)}, Tensor{DType: F32, Data: make([]byte, 4)}, Tensor{DType: F4, Shape: []int{2}, Data: make([]byte, 1)}
	_, e1 := ints.Float32(nil)
	_, e2 := ints.BF16(nil)
	_, e3 := floats.Int64(nil)
	_, e4 := packed.Float32(nil)
	_, e5 := floats.Float32(make([]float32, 2))
	_, e6 := packed.Rows(0, 1)
	_, e7 := Tensor{DType: F32, Shape: []int{1}, Data: make([]byte, 4)}.Rows(0, 2)
	for i, want := range []string{`tensor "a.b": I32 cannot be read as a float32`, "quantised weights", "F32 cannot be read as an int64", "F4 cannot", "1 elements do not fit a slice of 2", "packed F4", "no rows [0, 2)"} {
		if err := []error{e1, e2, e3, e4, e5, e6, e7}[i]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRows(t *testing.T) {
	x := Tensor{Name: "x", DType: U8, Shape: []int{3, 2}, Data: []byte("aabbcc")}
	part, err := x.Rows(1, 3)
	if err != nil || string(part.Data) != "bbcc" || !slices.Equal(part.Shape, []int{2, 2}) || x.Shape[0] != 3 {
		t.Errorf("%+v, %v", part, err)
	}
	if none, err := (Tensor{DType: F32, Shape: []int{0, 2}}).Rows(0, 0); err != nil || none.Len() != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

// nearestF16 rounds by big.Float with 11 bits of precision, or fewer where F16 is subnormal.
func nearestF16(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || x != x {
		return x
	}
	if math.Abs(x) < 0x1p-14 { // whole numbers of 2^-24
		return math.Copysign(math.RoundToEven(math.Abs(x)*0x1p24)*0x1p-24, x)
	}
	y, _ := new(big.Float).SetMode(big.ToNearestEven).SetPrec(11).SetFloat64(x).Float64()
	if math.Abs(y) >= 0x1p16 {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return y
}

// Every F16 comes back as it was, and a number between two goes to the nearer, or the even.
func TestFromFloat32(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var values []float32
	for i := range 1 << 16 {
		values = append(values, FromF16(uint16(i)))
	}
	for i := range 1<<16 - 1 {
		if tie := (float64(values[i]) + float64(values[i+1])) / 2; tie == tie && !math.IsInf(tie, 0) {
			values = append(values, float32(tie), math.Nextafter32(float32(tie), 0), math.Nextafter32(float32(tie), 1e9))
		}
		values = append(values, float32(math.Ldexp(2*r.Float64()-1, r.IntN(60)-40)))
	}
	values = append(values, 65504, 65519.99, 65520, 1e30, -65520, 0x1p-25, 0x1.8p-25, math.MaxFloat32, float32(math.Inf(-1)))
	for _, d := range []DType{F32, BF16, F16} {
		x, err := FromFloat32("x", d, []int{len(values)}, values)
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.Float32(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			want := map[DType]func(float64) float64{F32: func(x float64) float64 { return x }, BF16: nearestBF16, F16: nearestF16}[d](float64(v))
			if !same(float64(got[i]), want) {
				t.Fatalf("%s: %x became %x, want %x", d, v, got[i], want)
			}
		}
	}
	if _, err := FromFloat32("x", I32, []int{1}, []float32{1}); err == nil {
		t.Error("whole numbers were made")
	}
	if _, err := FromFloat32("x", F16, []int{2}, []float32{1}); err == nil {
		t.Error("a shape of two was made of one")
	}
}

// BenchmarkConvert: a billion elements take as many seconds as an element nanoseconds.
func BenchmarkConvert(b *testing.B) {
	const n = 1 << 16
	for _, d := range []DType{F32, BF16, F16, F8E4M3} {
		t := Tensor{DType: d, Shape: []int{n}, Data: make([]byte, n*d.Bits()/8)}
		for i := range t.Data {
			t.Data[i] = byte(i*7) & 0xbf // no infinities, no NaN
		}
		wide, half := make([]float32, n), make([]uint16, n)
		b.Run(d.String()+"/f32", func(b *testing.B) {
			for b.Loop() {
				_, _ = t.Float32(wide)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
		b.Run(d.String()+"/bf16", func(b *testing.B) {
			for b.Loop() {
				_, _ = t.BF16(half)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
	}
}
