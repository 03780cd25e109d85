package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// The form that backends unpack (kernels.Unpack), of every format:
//
//	format                  bits  table           scales of              minima
//	NF4, FP4                4     its own         runs of the block      FP4: -0, which takes signs from zeros
//	FP8                     8     values of FP8   the file's grid
//	INT8, LLM.int8, INT4    8     -128 to 127     the file's grid
//	Q4_0, IQ4_NL            4     -8 to 7, own    runs of 32
//	Q4_1                    4     0 to 15         runs of 32             runs of 32, their signs turned
//	Q5_0, Q5_1, Q8_0        8     integers        runs of 32             Q5_1: as Q4_1
//	Q2_K, Q3_K              4     integers        runs of 16             Q2_K: runs of 16
//	Q4_K, Q5_K              4, 8  integers        runs of 32             runs of 32
//	Q6_K, IQ4_XS            8, 4  integers, own   runs of 16, of 32
//
// Scales of parts of a block of GGUF are products in fp32 (d·scale, dmin·min), as the definition rounds them.

// Codes are a compressed matrix in that form.
type Codes struct {
	Rows, Columns int
	Bits          int // 4 or 8
	Low           bool
	Codes         []byte
	Table         []float32
	Scale, Min    Scales
	Over          float32 // 0: none
}

// Scales are numbers of blocks; kernels.Blocks says of which.
type Scales struct {
	Values             []float32
	Rows, Across, Flat int
}

// scales are a grid's.
func (g Grid) scales() Scales {
	if len(g.Scales) == 1 {
		return Scales{Values: g.Scales}
	}
	return Scales{Values: g.Scales, Rows: g.Rows, Across: g.Across}
}

// Codes is a matrix in the form that backends unpack. Axes after the first are columns.
func (m Matrix) Codes() (Codes, error) {
	rows, columns := 1, 1
	for i, side := range m.Shape {
		if i == 0 && len(m.Shape) > 1 {
			rows = side
		} else {
			columns *= side
		}
	}
	c, err := CodesOf(m.Weight, rows, columns)
	if err != nil {
		return c, fmt.Errorf("%s: %w", m.Name, err)
	}
	return c, nil
}

// CodesOf is a weight in the form that backends unpack.
func CodesOf(w Weight, rows, columns int) (Codes, error) {
	c := Codes{Rows: rows, Columns: columns}
	var grid Grid
	switch w := w.(type) {
	case Bits4:
		c.Bits, c.Codes, c.Table, c.Scale = 4, w.Codes, w.Table[:], Scales{Values: w.Absmax, Flat: w.Block}
		if w.Table == FP4() {
			c.Min = Scales{Values: []float32{float32(math.Copysign(0, -1))}} // -0 - (-0) is +0
		}
		return c, nil
	case Float8:
		c.Bits, c.Codes, grid = 8, w.Codes, w.Scale
		c.Table = integers(256, func(i int) float32 { return safetensors.FromF8(w.Form, byte(i)) })
	case Int8:
		c.Bits, c.Codes, grid = 8, w.Codes, w.Scale
		c.Table = integers(256, func(i int) float32 { return float32(int8(i)) })
		if w.Over != 1 {
			c.Over = w.Over
		}
	case Shifted4:
		if w.DType != safetensors.F32 {
			return c, fmt.Errorf("quanto's 4 bits in %s: products are rounded before the shift\nhint: they unpack by their own rule", w.DType)
		}
		c.Bits, c.Table = 8, integers(256, func(i int) float32 { return float32(int8(i)) })
		for _, q := range w.Codes {
			c.Codes = append(c.Codes, byte(q))
		}
		c.Scale, c.Min = Scales{Values: w.Scales, Flat: w.Group}, Scales{Values: w.Shift, Flat: w.Group}
		return c, nil
	case Blocks:
		return w.codes(c)
	default:
		return c, fmt.Errorf("a weight of the type %T has no codes and no table", w)
	}
	if c.Scale = grid.scales(); len(grid.Scales) > 1 && grid.Columns != columns {
		return c, fmt.Errorf("scales of %d columns, for a matrix of %d", grid.Columns, columns)
	}
	return c, nil
}

func integers(n int, f func(i int) float32) []float32 {
	table := make([]float32, n)
	for i := range table {
		table[i] = f(i)
	}
	return table
}

// A spread is a block of GGUF, with a byte a code.
type spread struct {
	codes       [256]byte
	scale, less [16]float32
}

// spreads are types of GGUF: bits of their codes here, the value of code 0, elements of a scale, whether there are
// minima, and how a block's bytes spread.
var spreads = map[Form]struct {
	bits, first, run int
	minima           bool
	of               func(s *spread, b []byte)
}{
	Q4_0: {4, -8, 32, false, func(s *spread, b []byte) { s.nibbles(half(b), 0, 0, b[2:]) }},
	Q4_1: {4, 0, 32, true, func(s *spread, b []byte) { s.nibbles(half(b), -half(b[2:]), 0, b[4:]) }},
	Q5_0: {8, -16, 32, false, func(s *spread, b []byte) { s.nibbles(half(b), 0, binary.LittleEndian.Uint32(b[2:]), b[6:]) }},
	Q5_1: {8, 0, 32, true, func(s *spread, b []byte) {
		s.nibbles(half(b), -half(b[2:]), binary.LittleEndian.Uint32(b[4:]), b[8:])
	}},
	Q8_0: {8, -128, 32, false, func(s *spread, b []byte) {
		s.scale[0] = half(b)
		for k := range 32 {
			s.codes[k] = b[2+k] + 128
		}
	}},
	Q2_K: {4, 0, 16, true, func(s *spread, b []byte) {
		d, dmin := half(b[80:]), half(b[82:])
		for k := range s.codes {
			s.codes[k] = b[16+k/128*32+k%32] >> (k % 128 / 32 * 2) & 3
			s.scale[k/16], s.less[k/16] = d*float32(b[k/16]&15), dmin*float32(b[k/16]>>4)
		}
	}},
	Q3_K: {4, -4, 16, false, func(s *spread, b []byte) {
		for k := range s.codes {
			scale, q := q3K(b, k)
			s.codes[k], s.scale[k/16] = byte(q+4), half(b[108:])*float32(scale)
		}
	}},
	Q4_K: {4, 0, 32, true, func(s *spread, b []byte) { s.q45K(b, nil, b[16:]) }},
	Q5_K: {8, 0, 32, true, func(s *spread, b []byte) { s.q45K(b, b[16:48], b[48:]) }},
	Q6_K: {8, -32, 16, false, func(s *spread, b []byte) {
		for k := range s.codes {
			s.codes[k], s.scale[k/16] = q6K(b, k), half(b[208:])*float32(int8(b[192+k/16]))
		}
	}},
	IQ4_NL: {4, 0, 32, false, func(s *spread, b []byte) { s.nibbles(half(b), 0, 0, b[2:]) }},
	IQ4_XS: {4, 0, 32, false, func(s *spread, b []byte) {
		for part := range 8 {
			s.scale[part] = half(b) * float32(iq4XS(b, part))
			for k := range 32 {
				s.codes[32*part+k] = byte(nibble(b[8+16*part:], 0, k))
			}
		}
	}},
}

// nibbles are a block of 32.
func (s *spread) nibbles(d, less float32, high uint32, b []byte) {
	s.scale[0], s.less[0] = d, less
	for k := range 32 {
		s.codes[k] = byte(nibble(b, high, k))
	}
}

func (s *spread) q45K(b, high, low []byte) {
	d, dmin := half(b), half(b[2:])
	for k := range s.codes {
		scale, least := six(b[4:16], k/32)
		s.codes[k], s.scale[k/32], s.less[k/32] = q45K(high, low, k), d*float32(scale), dmin*float32(least)
	}
}

// codes spreads blocks: codes to 4 or 8 bits in the order of values, and a scale of each part.
func (w Blocks) codes(c Codes) (Codes, error) {
	form, ok := spreads[w.Form]
	if !ok {
		return c, fmt.Errorf("%s is not compressed", w.Form)
	}
	values, bytes := w.Form.Block()
	n, per := len(w.Data)/bytes, values/form.run
	c.Bits, c.Low = form.bits, true
	c.Table = integers(1<<form.bits, func(i int) float32 { return float32(i + form.first) })
	if w.Form == IQ4_NL || w.Form == IQ4_XS {
		c.Table = iq4[:]
	}
	c.Codes, c.Scale = make([]byte, n*values*form.bits/8), Scales{Values: make([]float32, 0, n*per), Flat: form.run}
	if form.minima {
		c.Min = Scales{Values: make([]float32, 0, n*per), Flat: form.run}
	}
	var s spread
	for i := range n {
		form.of(&s, w.Data[i*bytes:(i+1)*bytes])
		c.Scale.Values = append(c.Scale.Values, s.scale[:per]...)
		if form.minima {
			c.Min.Values = append(c.Min.Values, s.less[:per]...)
		}
		if form.bits == 8 {
			copy(c.Codes[i*values:], s.codes[:values])
			continue
		}
		for k := 0; k < values; k += 2 {
			c.Codes[(i*values+k)/2] = s.codes[k] | s.codes[k+1]<<4
		}
	}
	return c, nil
}

// Codes lie in one piece of memory: table, scales, minima, codes, each from a multiple of 64 bytes on.
const aligned = 64

func (c Codes) places() (at [5]int) {
	for i, n := range []int{4 * len(c.Table), 4 * len(c.Scale.Values), 4 * len(c.Min.Values), len(c.Codes)} {
		at[i+1] = at[i] + (n+aligned-1)/aligned*aligned
	}
	return at
}

// Size is the bytes of that memory.
func (c Codes) Size() int { return c.places()[4] }

// Write fills that memory.
func (c Codes) Write(dst []byte) {
	at := c.places()
	for i, values := range [][]float32{c.Table, c.Scale.Values, c.Min.Values} {
		for k, v := range values {
			binary.LittleEndian.PutUint32(dst[at[i]+4*k:], math.Float32bits(v))
		}
	}
	copy(dst[at[3]:], c.Codes)
}

// In is the operation that unpacks what Write has written into a buffer, from a byte on that is a multiple of 64.
func (c Codes) In(buf *kernels.Buffer, from int, dst kernels.Mat) *kernels.Unpack {
	at := c.places()
	floats := func(i, n int) kernels.Span {
		return kernels.Span{Buf: buf, Off: (from + at[i]) / 4, Len: n, DType: kernels.F32}
	}
	blocks := func(i int, s Scales) kernels.Blocks {
		return kernels.Blocks{Values: floats(i, len(s.Values)), Rows: s.Rows, Across: s.Across, Flat: s.Flat}
	}
	return &kernels.Unpack{Codes: kernels.Span{Buf: buf, Off: from + at[3], Len: len(c.Codes), DType: kernels.U8}, Bits: c.Bits, Low: c.Low,
		Table: floats(0, len(c.Table)), Scale: blocks(1, c.Scale), Over: c.Over, Min: blocks(2, c.Min), Dst: dst}
}
