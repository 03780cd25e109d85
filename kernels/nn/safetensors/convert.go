package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Conversions from storage. Widening is exact, subnormals included; narrowing
// rounds once, to nearest even, whatever the stored type, and keeps subnormals
// (the engine flushes them in its operations, storage does not). NaN stays NaN.
//
// Invariant (tests): every one of the 65536 F16, BF16 and the 256 F8 values
// widens to its formula's value, and every rounding agrees with big.Float.

// Len is the number of elements.
func (t Tensor) Len() int { return int(int64(len(t.Data)) * 8 / int64(t.DType.Bits())) }

// Rows is the part of a tensor with first index in [from, to), sharing its data.
func (t Tensor) Rows(from, to int) (Tensor, error) {
	if len(t.Shape) == 0 || from < 0 || from > to || to > t.Shape[0] {
		return Tensor{}, &Error{Tensor: t.Name, Problem: fmt.Sprintf("shape %v has no rows [%d, %d)", t.Shape, from, to)}
	}
	if t.DType.Bits() < 8 {
		return Tensor{}, &Error{Tensor: t.Name, Problem: fmt.Sprintf("rows of packed %s", t.DType)}
	}
	part := t
	part.Shape = append([]int{to - from}, t.Shape[1:]...)
	row := 0
	if t.Shape[0] > 0 {
		row = len(t.Data) / t.Shape[0]
	}
	part.Data = t.Data[from*row : to*row : to*row]
	return part, nil
}

// Float32 converts a tensor of any float type. It fills dst, or a new slice if
// dst is nil.
func (t Tensor) Float32(dst []float32) ([]float32, error) {
	t, err := t.Made()
	if err != nil {
		return nil, err
	}
	dst, err = room(t, dst)
	if err != nil {
		return nil, err
	}
	src := t.Data
	switch t.DType {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = FromF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F64:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
		}
	case F8E4M3, F8E5M2:
		for i := range dst {
			dst[i] = FromF8(t.DType, src[i])
		}
	default:
		return nil, t.cannot("a float32")
	}
	return dst, nil
}

// BF16 converts a tensor of any float type to bf16, rounding once. It fills dst,
// or a new slice if dst is nil.
func (t Tensor) BF16(dst []uint16) ([]uint16, error) {
	t, err := t.Made()
	if err != nil {
		return nil, err
	}
	dst, err = room(t, dst)
	if err != nil {
		return nil, err
	}
	src := t.Data
	switch t.DType {
	case BF16:
		for i := range dst {
			dst[i] = binary.LittleEndian.Uint16(src[2*i:])
		}
	case F32:
		for i := range dst {
			dst[i] = ToBF16(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
		}
	case F16:
		for i := range dst {
			dst[i] = ToBF16(FromF16(binary.LittleEndian.Uint16(src[2*i:])))
		}
	case F64:
		for i := range dst {
			dst[i] = ToBF16(toOdd(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))))
		}
	case F8E4M3, F8E5M2:
		for i := range dst {
			dst[i] = ToBF16(FromF8(t.DType, src[i]))
		}
	default:
		return nil, t.cannot("a bf16")
	}
	return dst, nil
}

// Int64 converts a tensor of integers or truth values. It fills dst, or a new
// slice if dst is nil.
func (t Tensor) Int64(dst []int64) ([]int64, error) {
	dst, err := room(t, dst)
	if err != nil {
		return nil, err
	}
	src := t.Data
	for i := range dst {
		switch t.DType {
		case I64:
			dst[i] = int64(binary.LittleEndian.Uint64(src[8*i:]))
		case I32:
			dst[i] = int64(int32(binary.LittleEndian.Uint32(src[4*i:])))
		case U32:
			dst[i] = int64(binary.LittleEndian.Uint32(src[4*i:]))
		case I16:
			dst[i] = int64(int16(binary.LittleEndian.Uint16(src[2*i:])))
		case U16:
			dst[i] = int64(binary.LittleEndian.Uint16(src[2*i:]))
		case I8:
			dst[i] = int64(int8(src[i]))
		case U8, BOOL:
			dst[i] = int64(src[i])
		default:
			return nil, t.cannot("an int64")
		}
	}
	return dst, nil
}

// room checks dst, or makes it.
func room[T any](t Tensor, dst []T) ([]T, error) {
	if dst == nil {
		return make([]T, t.Len()), nil
	}
	if len(dst) != t.Len() {
		return nil, &Error{Tensor: t.Name, Problem: fmt.Sprintf("%d elements do not fit a slice of %d", t.Len(), len(dst))}
	}
	return dst, nil
}

func (t Tensor) cannot(what string) error {
	hint := "a checkpoint in F32, F16 or BF16 of this model is needed"
	switch t.DType {
	case I64, I32, I16, I8, U64, U32, U16, U8, BOOL:
		hint = "these are whole numbers; quantised weights need their unquantised checkpoint"
	case F64, F32, F16, BF16:
		hint = "these are floats; whole numbers were expected here"
	}
	return &Error{Tensor: t.Name, Problem: fmt.Sprintf("%s cannot be read as %s", t.DType, what), Hint: hint}
}

// FromF32 is a tensor of numbers, for writing.
func FromF32(name string, shape []int, x []float32) Tensor {
	return Tensor{Name: name, DType: F32, Shape: shape, Data: bytesOf(x)}
}

// bytesOf is numbers as a file has them.
func bytesOf(x []float32) []byte {
	b := make([]byte, 4*len(x))
	putFloats(b, x)
	return b
}

func putFloats(b []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
	}
}

// Halved is the tensor rounded to bf16, for writing.
func (t Tensor) Halved() (Tensor, error) {
	x, err := t.BF16(nil)
	if err != nil {
		return t, err
	}
	b := make([]byte, 2*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint16(b[2*i:], v)
	}
	return Tensor{Name: t.Name, DType: BF16, Shape: t.Shape, Data: b}, nil
}

// FromFloat32 is a tensor of numbers, rounded to F32, BF16 or F16.
func FromFloat32(name string, d DType, shape []int, x []float32) (Tensor, error) {
	t := Tensor{Name: name, DType: d, Shape: slices.Clone(shape)}
	switch d {
	case F32:
		t.Data = make([]byte, 0, 4*len(x))
		for _, v := range x {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
		}
	case BF16, F16:
		round := ToBF16
		if d == F16 {
			round = ToF16
		}
		t.Data = make([]byte, 0, 2*len(x))
		for _, v := range x {
			t.Data = binary.LittleEndian.AppendUint16(t.Data, round(v))
		}
	default:
		return t, t.cannot("made of float32")
	}
	return t, t.check(map[string]bool{})
}

// FromF16 widens 1 sign bit, 5 exponent bits, 10 fraction bits.
func FromF16(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3ff)
	switch {
	case exp-1 < 30: // normal, nearly always
		return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
	case exp == 0: // frac · 2^-24, a normal float32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case frac != 0:
		return math.Float32frombits(sign | 0x7fc0_0000 | frac<<13) // NaN, quiet
	}
	return math.Float32frombits(sign | 0x7f80_0000)
}

// FromF8 widens F8E5M2, which is F16's upper half, and F8E4M3, which has no
// infinity: its largest code is NaN, the one below it 448.
func FromF8(d DType, b byte) float32 {
	if d == F8E5M2 {
		return FromF16(uint16(b) << 8)
	}
	sign, exp, frac := uint32(b>>7)<<31, uint32(b>>3&15), uint32(b&7)
	switch {
	case b&0x7f == 0x7f:
		return math.Float32frombits(sign | 0x7fc0_0000)
	case exp == 0:
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-9))
	}
	return math.Float32frombits(sign | (exp+127-7)<<23 | frac<<20)
}

// FromBF16 widens float32's upper half.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds to nearest, ties to even: half a unit is added, less one where
// the kept part is even.
func ToBF16(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// toOdd rounds a float64 to float32 such that rounding the result again to fewer
// bits is rounding the float64 once: truncated, with the last bit set where
// anything was cut off.
func toOdd(x float64) float32 {
	f := float32(x)
	if float64(f) == x || x != x {
		return f
	}
	u := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(x) {
		u-- // rounded away from zero, to infinity perhaps
	}
	return math.Float32frombits(u | 1)
}

// ToF16 rounds to nearest, ties to even; a number that is too large becomes infinite.
func ToF16(x float32) uint16 {
	u := math.Float32bits(x)
	sign := uint16(u >> 16 & 0x8000)
	a := math.Float32frombits(u &^ (1 << 31))
	switch {
	case x != x:
		return sign | 0x7e00
	case a >= 65520: // half a unit above the largest
		return sign | 0x7c00
	case a < 0x1p-14: // subnormal: a whole number of 2^-24; the product is exact
		return sign | uint16(math.RoundToEven(float64(a)*0x1p24))
	}
	u &^= 1 << 31
	u += 0xfff + u>>13&1
	return sign | uint16((u-(127-15)<<23)>>13)
}
