package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Blocks of GGUF files (llama.cpp, ggml-quants.c).
//
//	Q4_0, Q5_0, Q8_0, IQ4_NL   value = d * q
//	Q4_1, Q5_1                 value = d * q + m
//	Q3_K, Q6_K, IQ4_XS         value = (d * scale) * q
//	Q2_K, Q4_K, Q5_K           value = (d * scale) * q - dmin * min
//
// d, m and dmin are float16; all else is float32 arithmetic, each operation rounded, as llama.cpp and gguf do it;
// diffusers and ComfyUI-GGUF compute in float16, and have other values. Low nibbles are the first half of a block.

// A Form is a type of GGUF.
type Form uint32

// Types by their numbers in files.
const (
	F32    Form = 0
	F16    Form = 1
	Q4_0   Form = 2
	Q4_1   Form = 3
	Q5_0   Form = 6
	Q5_1   Form = 7
	Q8_0   Form = 8
	Q2_K   Form = 10
	Q3_K   Form = 11
	Q4_K   Form = 12
	Q5_K   Form = 13
	Q6_K   Form = 14
	IQ4_NL Form = 20
	IQ4_XS Form = 23
	BF16   Form = 30
)

// layout is a type's name, values and bytes of a block, and unpacking.
type layout struct {
	name          string
	values, bytes int
	unpack        func(dst []float32, b []byte)
}

// layouts are the types that are read.
var layouts = map[Form]layout{
	F32:  {"F32", 1, 4, func(dst []float32, b []byte) { dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(b)) }},
	F16:  {"F16", 1, 2, func(dst []float32, b []byte) { dst[0] = half(b) }},
	BF16: {"BF16", 1, 2, func(dst []float32, b []byte) { dst[0] = safetensors.FromBF16(binary.LittleEndian.Uint16(b)) }},
	Q4_0: {"Q4_0", 32, 18, func(dst []float32, b []byte) { simple(dst, half(b), 8, 0, b[2:]) }},
	Q4_1: {"Q4_1", 32, 20, func(dst []float32, b []byte) { lifted(dst, half(b), half(b[2:]), 0, b[4:]) }},
	Q5_0: {"Q5_0", 32, 22, func(dst []float32, b []byte) { simple(dst, half(b), 16, binary.LittleEndian.Uint32(b[2:]), b[6:]) }},
	Q5_1: {"Q5_1", 32, 24, func(dst []float32, b []byte) {
		lifted(dst, half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:]), b[8:])
	}},
	Q8_0:   {"Q8_0", 32, 34, unpackQ8},
	Q2_K:   {"Q2_K", 256, 84, unpackQ2K},
	Q3_K:   {"Q3_K", 256, 110, unpackQ3K},
	Q4_K:   {"Q4_K", 256, 144, func(dst []float32, b []byte) { unpackQ45K(dst, b, nil, b[16:]) }},
	Q5_K:   {"Q5_K", 256, 176, func(dst []float32, b []byte) { unpackQ45K(dst, b, b[16:48], b[48:]) }},
	Q6_K:   {"Q6_K", 256, 210, unpackQ6K},
	IQ4_NL: {"IQ4_NL", 32, 18, func(dst []float32, b []byte) { table4(dst, half(b), b[2:]) }},
	IQ4_XS: {"IQ4_XS", 256, 136, unpackIQ4XS},
}

// String is the type's name.
func (f Form) String() string {
	if l, ok := layouts[f]; ok {
		return l.name
	}
	return fmt.Sprintf("type %d of GGUF", uint32(f))
}

// FormNamed is the type of a name.
func FormNamed(name string) (Form, bool) {
	for f, l := range layouts {
		if l.name == name {
			return f, true
		}
	}
	return 0, false
}

// Block says how many values a block has, and in how many bytes; 0 for types that cannot be read.
func (f Form) Block() (values, bytes int) { return layouts[f].values, layouts[f].bytes }

// Blocks is a weight of a GGUF file.
type Blocks struct {
	Form Form
	Data []byte
}

// Unpack is Weight's: whole blocks.
func (w Blocks) Unpack(dst []float32, at int) {
	l := layouts[w.Form]
	for k := 0; k < len(dst); k += l.values {
		from := (at + k) / l.values * l.bytes
		l.unpack(dst[k:k+l.values], w.Data[from:from+l.bytes])
	}
}

// Grain is Weight's.
func (w Blocks) Grain() int { return layouts[w.Form].values }

// Bytes is Weight's.
func (w Blocks) Bytes() int { return len(w.Data) }

func half(b []byte) float32 { return safetensors.FromF16(binary.LittleEndian.Uint16(b)) }

// nibble is the code of value k of a block of 32: its nibble, with a fifth bit from high.
func nibble(b []byte, high uint32, k int) int {
	return int(b[k%16]>>(k/16*4)&15) | int(high>>k&1)<<4
}

func simple(dst []float32, d float32, less int, high uint32, b []byte) {
	for k := range dst {
		dst[k] = d * float32(nibble(b, high, k)-less)
	}
}

func lifted(dst []float32, d, m float32, high uint32, b []byte) {
	for k := range dst {
		dst[k] = float32(d*float32(nibble(b, high, k))) + m
	}
}

// iq4 are the values of IQ4_NL and IQ4_XS.
var iq4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func table4(dst []float32, d float32, b []byte) {
	for k := range dst {
		dst[k] = d * iq4[nibble(b, 0, k)]
	}
}

func unpackIQ4XS(dst []float32, b []byte) {
	d := half(b)
	for s := range 8 {
		table4(dst[32*s:32*s+32], d*float32(iq4XS(b, s)), b[8+16*s:])
	}
}

// iq4XS is the scale of part s of a block.
func iq4XS(b []byte, s int) int {
	return (int(b[4+s/2]>>(s%2*4)&15) | int(binary.LittleEndian.Uint16(b[2:])>>(2*s)&3)<<4) - 32
}

func unpackQ8(dst []float32, b []byte) {
	d := half(b)
	for k := range dst {
		dst[k] = float32(int8(b[2+k])) * d
	}
}

func unpackQ2K(dst []float32, b []byte) {
	d, dmin := half(b[80:]), half(b[82:])
	for k := range dst {
		q, scale := b[16+k/128*32+k%32]>>(k%128/32*2)&3, b[k/16]
		dst[k] = float32(float32(d*float32(scale&15))*float32(q)) - float32(dmin*float32(scale>>4))
	}
}

func unpackQ3K(dst []float32, b []byte) {
	d := half(b[108:])
	for k := range dst {
		scale, q := q3K(b, k)
		dst[k] = float32(d*float32(scale)) * float32(q)
	}
}

// q3K is the scale of value k of a block, and its code, from -4 to 3.
func q3K(b []byte, k int) (scale, q int) {
	scales, h, s, j, g := b[96:108], k/128, k%128/32, k%32, k/16
	scale = int(scales[g%8]>>(g/8*4)&15) | int(scales[8+g%4]>>(g/4*2)&3)<<4
	return scale - 32, int(b[32+32*h+j]>>(2*s)&3) - 4 + int(b[j]>>(4*h+s)&1)*4
}

// six is the scale and the minimum of part j of Q4_K and Q5_K, 6 bits each.
func six(b []byte, j int) (scale, least byte) {
	if j < 4 {
		return b[j] & 63, b[j+4] & 63
	}
	return b[j+4]&15 | b[j-4]>>6<<4, b[j+4]>>4 | b[j]>>6<<4
}

func unpackQ45K(dst []float32, b, high, low []byte) {
	d, dmin := half(b), half(b[2:])
	for k := range dst {
		scale, least := six(b[4:16], k/32)
		dst[k] = float32(float32(d*float32(scale))*float32(q45K(high, low, k))) - float32(dmin*float32(least))
	}
}

// q45K is the code of value k of a block: its nibble, with a fifth bit from high, where that is there.
func q45K(high, low []byte, k int) byte {
	s, j := k/32, k%32
	q := low[s/2*32+j] >> (s % 2 * 4) & 15
	if high != nil {
		q |= high[j] >> s & 1 << 4
	}
	return q
}

func unpackQ6K(dst []float32, b []byte) {
	d := half(b[208:])
	for k := range dst {
		dst[k] = float32(d*float32(int8(b[192+k/16]))) * float32(int(q6K(b, k))-32)
	}
}

// q6K is the code of value k of a block, from 0 to 63.
func q6K(b []byte, k int) byte {
	h, s, j := k/128, k%128/32, k%32
	return b[64*h+s%2*32+j]>>(s/2*4)&15 | b[128+32*h+j]>>(2*s)&3<<4
}

// QuantizeGGUF is gguf's quantiser, of Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and BF16; values are whole blocks.
func QuantizeGGUF(values []float32, f Form) (Blocks, error) {
	w := Blocks{Form: f}
	switch f {
	case BF16:
		for _, v := range values {
			w.Data = binary.LittleEndian.AppendUint16(w.Data, safetensors.ToBF16(v))
		}
		return w, nil
	case Q8_0, Q4_0, Q4_1, Q5_0, Q5_1:
	default:
		return w, fmt.Errorf("%s is read and not written; written are Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 and BF16", f)
	}
	if len(values)%32 != 0 {
		return w, fmt.Errorf("%d values are no whole blocks of 32", len(values))
	}
	for from := 0; from < len(values); from += 32 {
		w.Data = append(w.Data, block(values[from:from+32], f)...)
	}
	return w, nil
}

// block is one block's bytes.
func block(x []float32, f Form) (b []byte) {
	inverse := func(d float32) float32 {
		if d == 0 {
			return 0
		}
		return 1 / d
	}
	store := func(v float32) { b = binary.LittleEndian.AppendUint16(b, safetensors.ToF16(v)) }
	if f == Q8_0 {
		d := largest(x) / 127
		store(d)
		for _, v := range x {
			b = append(b, byte(int8(math.Round(float64(v*inverse(d)))))) // half away from zero
		}
		return b
	}
	most, offset := float32(15), float32(8.5)
	if f == Q5_0 || f == Q5_1 {
		most, offset = 31, 16.5
	}
	var d, low float32
	if f == Q4_1 || f == Q5_1 {
		high := x[0]
		low = x[0]
		for _, v := range x {
			low, high = min(low, v), max(high, v)
		}
		d, offset = (high-low)/most, 0.5
		store(d)
		store(low)
	} else {
		first := x[0] // of the largest magnitude, the first of equals
		for _, v := range x {
			if magnitude(v) > magnitude(first) {
				first = v
			}
		}
		d = first / -(offset - 0.5)
		store(d)
	}
	by := inverse(d)
	var codes [32]byte
	var fifth uint32
	for k, v := range x {
		if f == Q4_1 || f == Q5_1 {
			v -= low
		}
		q := byte(min(max(math.Trunc(float64(float32(v*by)+offset)), 0), float64(most)))
		codes[k], fifth = q, fifth|uint32(q>>4)<<k
	}
	if most == 31 {
		b = binary.LittleEndian.AppendUint32(b, fifth)
	}
	for j := range 16 {
		b = append(b, codes[j]&15|codes[16+j]<<4)
	}
	return b
}
