package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/vision/onnx/proto"
)

// A Type is the type of a tensor's elements, by ONNX's numbers.
type Type int32

// The types that the runner has.
const (
	Float    Type = 1
	Uint8    Type = 2
	Int8     Type = 3
	Uint16   Type = 4
	Int16    Type = 5
	Int32    Type = 6
	Int64    Type = 7
	String   Type = 8
	Bool     Type = 9
	Float16  Type = 10
	Double   Type = 11
	Uint32   Type = 12
	Uint64   Type = 13
	BFloat16 Type = 16
)

// typeNames are those of the specification; types of 8 and fewer bits of floats, and of 4 bits, have names alone.
var typeNames = map[Type]string{Float: "float", Uint8: "uint8", Int8: "int8", Uint16: "uint16", Int16: "int16", Int32: "int32", Int64: "int64", String: "string",
	Bool: "bool", Float16: "float16", Double: "double", Uint32: "uint32", Uint64: "uint64", 14: "complex64", 15: "complex128", BFloat16: "bfloat16",
	17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2"}

func (t Type) String() string {
	if name := typeNames[t]; name != "" {
		return name
	}
	return fmt.Sprintf("type %d", int32(t))
}

// size is the number of bytes of an element in a file; 0: the runner has no such type.
func (t Type) size() int {
	switch t {
	case Uint8, Int8, Bool:
		return 1
	case Uint16, Int16, Float16, BFloat16:
		return 2
	case Float, Int32, Uint32:
		return 4
	case Double, Int64, Uint64:
		return 8
	case String:
		return 16
	}
	return 0
}

// bytes is the number of bytes of an element in memory.
func (t Type) bytes() int {
	switch t {
	case Float, Float16, BFloat16:
		return 4
	case String:
		return 32
	}
	return 8
}

func (t Type) isFloat() bool { return t == Float || t == Float16 || t == BFloat16 }
func (t Type) isInt() bool {
	return t == Uint8 || t == Int8 || t == Uint16 || t == Int16 || t == Int32 || t == Int64 || t == Uint32 || t == Uint64
}

// A Tensor is numbers, or texts, in rows: the last axis is contiguous. One of F, D, I and S holds them.
type Tensor struct {
	Type  Type
	Shape []int
	F     []float32 // of Float; of Float16 and BFloat16, rounded to these after every operation
	D     []float64 // of Double
	I     []int64   // of all integers and of Bool (0, 1); Uint64 by its bits
	S     []string

	last bool // memory has [N, H, W, C] of a shape [N, C, H, W]
	mem  *block
}

// Len is the number of elements.
func (t *Tensor) Len() int { return volume(t.Shape) }

// volume is the number of elements of a shape that was checked.
func volume(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// checkedVolume is the number of elements, or an error where no memory holds them.
func checkedVolume(shape []int) (int, error) {
	n, empty := 1, slices.Contains(shape, 0)
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v has a negative length", shape)
		case empty:
		case d > math.MaxInt32 || n > math.MaxInt32*64/d:
			return 0, fmt.Errorf("shape %v is larger than any memory", shape)
		default:
			n *= d
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

// Floats is a tensor of float32 numbers.
func Floats(data []float32, shape ...int) *Tensor { return &Tensor{Type: Float, Shape: shape, F: data} }

// Ints is a tensor of int64 numbers.
func Ints(data []int64, shape ...int) *Tensor { return &Tensor{Type: Int64, Shape: shape, I: data} }

func (t *Tensor) String() string { return fmt.Sprintf("%s%v", t.Type, t.Shape) }

// make gives the tensor memory of its own.
func (t *Tensor) make(n int) {
	switch {
	case t.Type.isFloat():
		t.F = make([]float32, n)
	case t.Type == Double:
		t.D = make([]float64, n)
	case t.Type == String:
		t.S = make([]string, n)
	default:
		t.I = make([]int64, n)
	}
}

// float is element i as float64.
func (t *Tensor) float(i int) float64 {
	switch {
	case t.F != nil:
		return float64(t.F[i])
	case t.D != nil:
		return t.D[i]
	case t.Type == Uint64:
		return float64(uint64(t.I[i]))
	}
	return float64(t.I[i])
}

// set is element i of a number: floats are rounded to the type, integers are cut toward zero and wrap around.
func (t *Tensor) set(i int, v float64) {
	switch {
	case t.F != nil:
		t.F[i] = t.Type.round(float32(v))
	case t.D != nil:
		t.D[i] = v
	case t.Type == Bool:
		t.I[i] = 0
		if v != 0 {
			t.I[i] = 1
		}
	default:
		t.I[i] = t.Type.wrap(toInt(v, t.Type))
	}
}

// toInt is a number without its fraction; numbers that no int64 holds are the nearest one that it does.
func toInt(v float64, t Type) int64 {
	switch {
	case v != v:
		return 0
	case t == Uint64 && v >= 1<<63:
		if v >= 1<<64 {
			return -1
		}
		return int64(uint64(v))
	case v >= 1<<63:
		return math.MaxInt64
	case v < -(1 << 63):
		return math.MinInt64
	}
	return int64(v)
}

// wrap is an integer cut to the type's bits.
func (t Type) wrap(v int64) int64 {
	switch t {
	case Uint8:
		return int64(uint8(v))
	case Int8:
		return int64(int8(v))
	case Uint16:
		return int64(uint16(v))
	case Int16:
		return int64(int16(v))
	case Int32:
		return int64(int32(v))
	case Uint32:
		return int64(uint32(v))
	case Bool:
		return v & 1
	}
	return v
}

// limits are the least and the most of an integer type below 64 bits.
func (t Type) limits() (low, high int64) {
	switch t {
	case Uint8:
		return 0, 255
	case Int8:
		return -128, 127
	case Uint16:
		return 0, 65535
	case Int16:
		return -32768, 32767
	case Int32:
		return math.MinInt32, math.MaxInt32
	case Uint32:
		return 0, math.MaxUint32
	case Bool:
		return 0, 1
	}
	return math.MinInt64, math.MaxInt64
}

// round is a number as the type holds it.
func (t Type) round(v float32) float32 {
	switch t {
	case Float16:
		return fromHalf(toHalf(v))
	case BFloat16:
		return bfloat(v)
	}
	return v
}

// roundAll rounds a tensor's numbers to its type.
func (t *Tensor) roundAll() {
	if t.Type == Float16 || t.Type == BFloat16 {
		for i, v := range t.F {
			t.F[i] = t.Type.round(v)
		}
	}
}

// bfloat rounds to bfloat16, to the nearest, ties to even; it keeps denormals.
func bfloat(v float32) float32 {
	b := math.Float32bits(v)
	if v != v {
		return math.Float32frombits(b&0xffff0000 | 0x400000)
	}
	return math.Float32frombits((b + 0x7fff + b>>16&1) & 0xffff0000)
}

// toHalf is float16's bits of a number, rounded to the nearest, ties to even.
func toHalf(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // 65520 and above
		return sign | 0x7c00
	case b >= 0x38800000: // normal: 2^-14 and above
		b += 0xfff + b>>13&1
		return sign | uint16((b-0x38000000)>>13)
	}
	// denormal: multiples of 2^-24
	return sign | uint16(math.RoundToEven(float64(math.Float32frombits(b))*(1<<24)))
}

func fromHalf(h uint16) float32 {
	e, m := int(h>>10&31), uint32(h&0x3ff)
	var v float32
	switch e {
	case 0:
		v = float32(m) / (1 << 24)
	case 31:
		v = math.Float32frombits(0x7f800000 | m<<13)
	default:
		v = math.Float32frombits(uint32(e+112)<<23 | m<<13)
	}
	if h&0x8000 != 0 {
		v = -v
	}
	return v
}

// Decode is a tensor of a file.
func Decode(p *proto.Tensor) (*Tensor, error) {
	t := &Tensor{Type: Type(p.Type), Shape: make([]int, len(p.Dims))}
	if t.Type.size() == 0 {
		return nil, fmt.Errorf("its type is %v; the runner has %s", t.Type, knownTypes())
	}
	if p.Segment {
		return nil, fmt.Errorf("it is a segment of a tensor, which ONNX no longer has")
	}
	for i, d := range p.Dims {
		if d < 0 || d > math.MaxInt32 {
			return nil, fmt.Errorf("its shape is %v", p.Dims)
		}
		t.Shape[i] = int(d)
	}
	n, err := checkedVolume(t.Shape)
	if err != nil {
		return nil, err
	}
	forms := 0
	for _, has := range []bool{p.HasRaw && len(p.Raw) > 0, len(p.Floats) > 0, len(p.Doubles) > 0, len(p.Ints) > 0, len(p.Strings) > 0} {
		if has {
			forms++
		}
	}
	if forms > 1 {
		return nil, fmt.Errorf("its elements lie in %d fields; one is needed", forms)
	}
	have, form := 0, ""
	switch {
	case t.Type == String:
		have, form = len(p.Strings), "texts"
	case p.HasRaw:
		have, form = len(p.Raw)/t.Type.size(), "numbers"
		if len(p.Raw)%t.Type.size() != 0 {
			have = -1
		}
	case t.Type == Float:
		have, form = len(p.Floats), "numbers"
	case t.Type == Double:
		have, form = len(p.Doubles), "numbers"
	default:
		have, form = len(p.Ints), "numbers"
	}
	if have != n {
		return nil, fmt.Errorf("its shape %v has %d elements, and the file has %d %s", t.Shape, n, max(have, 0), form)
	}
	t.make(n)
	switch {
	case t.Type == String:
		for i, s := range p.Strings {
			t.S[i] = string(s)
		}
	case p.HasRaw:
		t.decode(p.Raw)
	case t.Type == Float:
		copy(t.F, p.Floats)
	case t.Type == Double:
		copy(t.D, p.Doubles)
	case t.Type == Float16:
		for i, v := range p.Ints {
			t.F[i] = fromHalf(uint16(v))
		}
	case t.Type == BFloat16:
		for i, v := range p.Ints {
			t.F[i] = ref.FromBF16(uint16(v))
		}
	default:
		for i, v := range p.Ints {
			t.I[i] = t.Type.wrap(v)
		}
	}
	return t, nil
}

func knownTypes() string {
	var names []string
	for t := range Type(64) {
		if t.size() > 0 {
			names = append(names, t.String())
		}
	}
	return strings.Join(names, ", ")
}

// decode fills the tensor from a file's bytes, little endian.
func (t *Tensor) decode(raw []byte) {
	le := binary.LittleEndian
	switch t.Type {
	case Float:
		for i := range t.F {
			t.F[i] = math.Float32frombits(le.Uint32(raw[4*i:]))
		}
	case Float16:
		for i := range t.F {
			t.F[i] = fromHalf(le.Uint16(raw[2*i:]))
		}
	case BFloat16:
		for i := range t.F {
			t.F[i] = ref.FromBF16(le.Uint16(raw[2*i:]))
		}
	case Double:
		for i := range t.D {
			t.D[i] = math.Float64frombits(le.Uint64(raw[8*i:]))
		}
	default:
		for i := range t.I {
			switch t.Type.size() {
			case 1:
				t.I[i] = t.Type.wrap(int64(raw[i]))
			case 2:
				t.I[i] = t.Type.wrap(int64(le.Uint16(raw[2*i:])))
			case 4:
				t.I[i] = t.Type.wrap(int64(le.Uint32(raw[4*i:])))
			case 8:
				t.I[i] = int64(le.Uint64(raw[8*i:]))
			}
		}
		if t.Type == Bool {
			for i := range t.I {
				t.I[i] = min(int64(raw[i]), 1)
			}
		}
	}
}

// span is a kernel's view of numbers.
func span(f []float32) kernels.Span {
	if len(f) == 0 {
		return kernels.Span{}
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
	return kernels.Span{Buf: &kernels.Buffer{Host: b, Bytes: len(b)}, Len: len(f), DType: kernels.F32}
}

// mat is a kernel's view of numbers as rows.
func mat(f []float32, rows, cols int) kernels.Mat { return kernels.NewMat(span(f), rows, cols) }
