package safetensors

import (
	"fmt"
	"math"
)

// DType is the type of a stored element. The order is the format's own: writers
// sort tensors by it, largest alignment first.
type DType uint8

const (
	BOOL DType = iota
	F4
	F6E2M3
	F6E3M2
	U8
	I8
	F8E5M2
	F8E4M3
	F8E8M0
	F8E4M3FNUZ
	F8E5M2FNUZ
	I16
	U16
	F16
	BF16
	I32
	U32
	F32
	C64
	F64
	I64
	U64
)

var dtypes = [...]struct {
	name string
	bits int
}{
	BOOL: {"BOOL", 8}, F4: {"F4", 4}, F6E2M3: {"F6_E2M3", 6}, F6E3M2: {"F6_E3M2", 6}, U8: {"U8", 8}, I8: {"I8", 8},
	F8E5M2: {"F8_E5M2", 8}, F8E4M3: {"F8_E4M3", 8}, F8E8M0: {"F8_E8M0", 8},
	F8E4M3FNUZ: {"F8_E4M3FNUZ", 8}, F8E5M2FNUZ: {"F8_E5M2FNUZ", 8},
	I16: {"I16", 16}, U16: {"U16", 16}, F16: {"F16", 16}, BF16: {"BF16", 16}, I32: {"I32", 32}, U32: {"U32", 32},
	F32: {"F32", 32}, C64: {"C64", 64}, F64: {"F64", 64}, I64: {"I64", 64}, U64: {"U64", 64},
}

// String is the name that headers use.
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Bits is the size of an element; F4 and F6 are packed.
func (d DType) Bits() int { return dtypes[d].bits }

func dtypeNamed(name string) (DType, bool) {
	for d, t := range dtypes {
		if t.name == name {
			return DType(d), true
		}
	}
	return 0, false
}

// sizeOf is the number of bytes of a shape. It refuses a negative one, and one that does not fit an int64, or does
// not end at a byte.
func sizeOf(d DType, shape []int) (int64, error) {
	n := int64(1)
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		if dim != 0 && n > math.MaxInt64/64/int64(dim) {
			return 0, fmt.Errorf("shape %v has more elements than any file can hold", shape)
		}
		n *= int64(dim)
	}
	bits := n * int64(d.Bits())
	if bits%8 != 0 {
		return 0, fmt.Errorf("%d elements of %d bits do not end at a byte", n, d.Bits())
	}
	return bits / 8, nil
}
