package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/darkroom-rl/darkroom/kernels"
)

// unpackCase is a compressed matrix and where it goes.
type unpackCase struct {
	bits       int
	low        bool
	rows, cols int
	pad        int // between rows of the destination
	scale, min kernels.Blocks
	minima     bool
	over       bool
	table      string // of 8 bits: "int8", "e4m3", "e5m2", or else any
	wild       bool
	dst        kernels.DType
}

func (c unpackCase) String() string {
	order := "high"
	if c.low {
		order = "low"
	}
	name := fmt.Sprintf("%d bits %s %dx%d pad %d scale %v to %s", c.bits, order, c.rows, c.cols, c.pad, []int{c.scale.Rows, c.scale.Across, c.scale.Flat}, c.dst)
	if c.minima {
		name += fmt.Sprintf(" min %v", []int{c.min.Rows, c.min.Across, c.min.Flat})
	}
	if c.over {
		name += " over"
	}
	if c.table != "" {
		name += " " + c.table
	}
	if c.wild {
		name += " wild"
	}
	return name
}

// finite are numbers of all exponents, denormals and zeros of both signs among them: half precision has no NaNs that a
// comparison knows.
func (e *Env) finite(n int) kernels.Span {
	r := e.rand()
	x := make([]float32, n)
	for i := range x {
		switch r.IntN(8) {
		case 0:
			x[i] = float32(math.Copysign(0, float64(r.IntN(2))-0.5))
		case 1:
			x[i] = math.Float32frombits(r.Uint32() & 0x807f_ffff)
		case 2:
			x[i] = math.Float32frombits(r.Uint32() & 0xff7f_ffff)
		default:
			x[i] = bell(r) * 3e-5
		}
	}
	return e.Values(kernels.F32, x)
}

// eights are tables of 256 values that kernels may know.
func eights(kind string) []float32 {
	table := make([]float32, 256)
	for i := range table {
		switch kind {
		case "int8":
			table[i] = float32(int8(i))
		case "e4m3":
			table[i] = float8(byte(i), 3)
		case "e5m2":
			table[i] = float8(byte(i), 2)
		}
	}
	return table
}

// float8 is the number of a byte with this many bits of fraction. e4m3 has no infinity.
func float8(b byte, fraction int) float32 {
	bias := 1<<(6-fraction) - 1
	exponent, m := int(b&0x7f)>>fraction, int(b)&(1<<fraction-1)
	v := math.Ldexp(float64(m), 1-bias-fraction)
	switch {
	case fraction == 3 && b&0x7f == 0x7f, fraction == 2 && exponent == 31 && m > 0:
		v = math.NaN()
	case fraction == 2 && exponent == 31:
		v = math.Inf(1)
	case exponent > 0:
		v = math.Ldexp(float64(m+1<<fraction), exponent-bias-fraction)
	}
	return float32(math.Copysign(v, 1-2*float64(b>>7)))
}

func (c unpackCase) run(e *Env) {
	n := c.rows * c.cols
	numbers := func(n int) kernels.Span {
		switch {
		case !c.wild:
			return e.Floats(kernels.F32, n, 1)
		case c.dst == kernels.F16:
			return e.finite(n)
		}
		return e.Wild(kernels.F32, n)
	}
	r := e.rand()
	codes := make([]byte, (n*c.bits+7)/8)
	for i := range codes {
		codes[i] = byte(r.Uint32())
	}
	a := kernels.Unpack{Codes: e.New(kernels.U8, len(codes), codes), Bits: c.bits, Low: c.low, Scale: c.scale, Min: c.min, Dst: e.JunkMat(c.dst, c.rows, c.cols, c.pad)}
	if c.table == "" {
		a.Table = numbers(1 << c.bits)
	} else {
		a.Table = e.Values(kernels.F32, eights(c.table))
	}
	a.Scale.Values = numbers(a.Scale.Count(c.rows, c.cols))
	if c.minima {
		a.Min.Values = numbers(a.Min.Count(c.rows, c.cols))
	}
	if c.over {
		a.Over = 1.0 / 127
	}
	e.B.Unpack(&a)
	e.Out("dst", a.Dst.Span)
}

// Unpacks are the cases of Unpack.
func Unpacks() []Case {
	flat := func(n int) kernels.Blocks { return kernels.Blocks{Flat: n} }
	across := func(n int) kernels.Blocks { return kernels.Blocks{Rows: 1, Across: n} }
	rows, square := kernels.Blocks{Rows: 1}, kernels.Blocks{Rows: 128, Across: 128}
	var all []unpackCase
	for _, d := range []kernels.DType{kernels.BF16, kernels.F16, kernels.F32} {
		for _, wild := range []bool{false, true} {
			if d != kernels.BF16 && !wild {
				continue // a rounded value is the same
			}
			all = append(all,
				// bitsandbytes: blocks across rows, odd lengths, a last block cut short; zeros without a sign.
				unpackCase{bits: 4, rows: 3, cols: 128, scale: flat(64), dst: d, wild: wild},
				unpackCase{bits: 4, rows: 5, cols: 77, scale: flat(64), dst: d, wild: wild},
				unpackCase{bits: 4, rows: 2, cols: 33, pad: 3, scale: flat(32), minima: true, dst: d, wild: wild},
				unpackCase{bits: 4, rows: 1, cols: 5000, scale: flat(4096), dst: d, wild: wild},
				// GGUF: a scale and a minimum of 32 or 16, and 8 bits of 16.
				unpackCase{bits: 4, low: true, rows: 3, cols: 256, scale: flat(32), min: flat(32), minima: true, dst: d, wild: wild},
				unpackCase{bits: 4, low: true, rows: 3, cols: 512, pad: 8, scale: across(16), min: across(16), minima: true, dst: d, wild: wild},
				unpackCase{bits: 8, rows: 2, cols: 512, scale: flat(16), dst: d, wild: wild},
				unpackCase{bits: 8, rows: 3, cols: 100, scale: across(33), min: across(20), minima: true, dst: d, wild: wild},
				// Integers: a scale a row, a group or all.
				unpackCase{bits: 8, rows: 7, cols: 65, scale: rows, over: true, table: "int8", dst: d, wild: wild},
				unpackCase{bits: 8, rows: 4, cols: 1024, pad: 1, scale: rows, table: "int8", dst: d, wild: wild},
				unpackCase{bits: 8, rows: 3, cols: 96, scale: across(32), table: "int8", dst: d, wild: wild},
				// FP8: of a matrix, of rows, of blocks of 128 x 128.
				unpackCase{bits: 8, rows: 3, cols: 300, table: "e4m3", dst: d, wild: wild && d != kernels.F16},
				unpackCase{bits: 8, rows: 3, cols: 300, scale: rows, table: "e5m2", dst: d, wild: wild && d != kernels.F16},
				unpackCase{bits: 8, rows: 130, cols: 260, scale: square, table: "e4m3", dst: d, wild: wild && d != kernels.F16},
				unpackCase{bits: 8, rows: 1, cols: 1, dst: d, wild: wild},
				unpackCase{bits: 4, rows: 0, cols: 64, scale: flat(64), dst: d, wild: wild})
		}
	}
	var cases []Case
	seen := map[string]bool{}
	for _, c := range all {
		if name := c.String(); !seen[name] {
			seen[name] = true
			cases = append(cases, Case{"Unpack", name, c.run})
		}
	}
	return cases
}

// drawUnpack is a compressed matrix of any form.
func drawUnpack(r *rand.Rand) Case {
	blocks := func(cols int) kernels.Blocks {
		size := []int{1 + r.IntN(70), 16, 32, 64, 128, 256}[r.IntN(6)]
		switch r.IntN(5) {
		case 0:
			return kernels.Blocks{}
		case 1:
			return kernels.Blocks{Rows: 1 + r.IntN(5)}
		case 2:
			return kernels.Blocks{Rows: r.IntN(4), Across: size}
		}
		return kernels.Blocks{Flat: size}
	}
	c := unpackCase{bits: 4 + 4*r.IntN(2), low: r.IntN(2) == 0, rows: small(r, 0), cols: small(r, 1) * (1 + r.IntN(12)), pad: r.IntN(4) * r.IntN(5),
		minima: r.IntN(3) == 0, over: r.IntN(4) == 0, wild: r.IntN(2) == 0, dst: []kernels.DType{kernels.BF16, kernels.BF16, kernels.F16, kernels.F32}[r.IntN(4)]}
	if r.IntN(2) == 0 {
		c.cols = 16 * ((c.cols + 15) / 16)
	}
	c.scale = blocks(c.cols)
	if c.minima {
		if c.min = blocks(c.cols); r.IntN(2) == 0 {
			c.min = c.scale
		}
	}
	if c.bits == 8 {
		c.table = []string{"", "int8", "e4m3", "e5m2"}[r.IntN(4)]
	}
	if c.dst == kernels.F16 && c.table != "" && c.table != "int8" { // they have NaNs
		c.dst = kernels.F32
	}
	return Case{"Unpack", "random " + c.String(), c.run}
}
