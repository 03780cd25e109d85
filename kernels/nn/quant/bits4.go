package quant

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// NF4 and FP4 of bitsandbytes (QLoRA, Dettmers et al., 2023).
//
//	value i = Table[code i] * Absmax[i / Block]
//
// Blocks run over the flattened row-major matrix, across rows. Two codes share a byte, the first in the high nibble.
// With double quantisation the absmax are 8-bit codes of a table of 256, scaled by 256 of them at a time:
//
//	absmax b = table[code b] * nested[b / 256] + offset   (two roundings)
//
// Where upstream kernels disagree, this is the order of the quantiser and of CUDA: bitsandbytes' AVX-512 kernel reads
// the wrong absmax where rows are no multiple of the block.

// Bits4 is such a weight.
type Bits4 struct {
	Table  [16]float32
	Codes  []byte
	Absmax []float32
	Block  int
}

// Unpack is Weight's.
func (w Bits4) Unpack(dst []float32, at int) {
	unsigned := w.Table == FP4() // kernels differ in the sign of its zeros
	for k := range dst {
		i := at + k
		code := w.Codes[i/2] >> 4
		if i%2 == 1 {
			code = w.Codes[i/2] & 15
		}
		dst[k] = w.Table[code] * w.Absmax[i/w.Block]
		if unsigned && dst[k] == 0 {
			dst[k] = 0
		}
	}
}

// Grain is Weight's.
func (w Bits4) Grain() int { return 1 }

// Bytes is Weight's.
func (w Bits4) Bytes() int { return len(w.Codes) + 4*len(w.Absmax) }

// NF4 is the table of quantiles of a normal distribution.
func NF4() [16]float32 {
	return [16]float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
		-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
		0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}
}

// FP4 is the table of floats of two exponent bits and one of fraction, over 12. Codes 0 and 8 are zero.
func FP4() (table [16]float32) {
	for i, v := range []float32{0, 0.0625, 8, 12, 4, 6, 2, 3} {
		table[i], table[i+8] = v/12, -v/12
	}
	table[8] = 0
	return table
}

// Order lists a table's codes by value; of the zeros of FP4 the first is 0.
func Order(table [16]float32) []byte {
	if table == FP4() {
		return []byte{11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3}
	}
	codes := make([]byte, 16)
	for i := range codes {
		codes[i] = byte(i)
	}
	return codes
}

// Bounds lie midway between a table's neighbouring values. The code of a scaled value is the number of bounds below it.
func Bounds(table [16]float32) []float32 {
	ascending := make([]float32, 16)
	for i, c := range Order(table) {
		ascending[i] = table[c]
	}
	return bounds(ascending)
}

// bounds lie midway between neighbouring values.
func bounds(ascending []float32) []float32 {
	between := make([]float32, len(ascending)-1)
	for i := range between {
		between[i] = (ascending[i] + ascending[i+1]) / 2
	}
	return between
}

// below is the number of bounds that are less than v.
func below(bounds []float32, v float32) int {
	n, _ := slices.BinarySearch(bounds, v)
	return n
}

// leastAbsmax keeps the scale of a block of zeros finite.
const leastAbsmax = 1e-38

// Quantize4 is bitsandbytes' quantiser on a CPU. A whole block is multiplied by 1/absmax, and the last short one
// divided by its absmax; a tie goes to the lower value; an odd count ends with the code of 0.
func Quantize4(values []float32, table [16]float32, block int) Bits4 {
	codes := Order(table)
	between := Bounds(table)
	blocks := (len(values) + block - 1) / block
	w := Bits4{Table: table, Block: block, Codes: make([]byte, (len(values)+1)/2), Absmax: make([]float32, blocks)}
	put := func(i int, scaled float32) {
		code := codes[below(between, min(max(scaled, -1), 1))]
		if i%2 == 0 {
			code <<= 4
		}
		w.Codes[i/2] |= code
	}
	chunks(len(values), 2*block, func(from, to int) {
		for ; from < to; from += block {
			part := values[from:min(from+block, to)]
			most := largest(part)
			if len(part) < block {
				most = max(most, leastAbsmax)
			}
			inverse := 1 / max(most, leastAbsmax)
			for i, v := range part {
				if len(part) < block {
					put(from+i, v/most)
				} else {
					put(from+i, v*inverse)
				}
			}
			w.Absmax[from/block] = most
		}
	})
	if len(values)%2 == 1 {
		put(len(values), 0)
	}
	return w
}

// A Nested are absmax in 8 bits.
type Nested struct {
	Codes  []byte
	Table  []float32 // of 256 values
	Scales []float32
	Block  int
	Offset float32
}

// Absmax are the scales that the codes stand for. They may be negative.
func (n Nested) Absmax() []float32 {
	absmax := make([]float32, len(n.Codes))
	for i, c := range n.Codes {
		absmax[i] = float32(n.Table[c]*n.Scales[i/n.Block]) + n.Offset
	}
	return absmax
}

// Dynamic is bitsandbytes' table of 256 values: seven decades, each divided evenly.
func Dynamic() []float32 {
	table := []float32{0, 1}
	for i, decade := range []float32{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1} {
		n := 1<<i + 1
		tenth := float32(0.1)
		step := float64((1 - tenth) / float32(n-1))
		even := make([]float32, n)
		for k := range even {
			if k < n/2 {
				even[k] = float32(float64(tenth) + float64(step*float64(k)))
			} else {
				even[k] = float32(1 - float64(step*float64(n-1-k)))
			}
		}
		for _, mean := range bounds(even) {
			table = append(table, decade*mean, -(decade * mean))
		}
	}
	slices.Sort(table)
	return table
}

// QuantizeNested is double quantisation as bitsandbytes does it on a CPU: a value is looked up in 65,536 bins.
func QuantizeNested(absmax []float32, offset float32, block int) Nested {
	n := Nested{Table: Dynamic(), Codes: make([]byte, len(absmax)), Block: block, Offset: offset}
	middle := bounds(n.Table)
	for from := 0; from < len(absmax); from += block {
		part := slices.Clone(absmax[from:min(from+block, len(absmax))])
		for i := range part {
			part[i] -= offset
		}
		most := largest(part)
		n.Scales = append(n.Scales, most)
		if most == 0 {
			continue
		}
		inverse := 1 / most
		for i, v := range part {
			share := float32(min(max(float32(v*inverse), -1), 1)+1) * 0.5
			bin := math.Trunc(float64(float32(float64(share)*65535 + 0.5))) // exact: 24 bits by 16
			n.Codes[from+i] = byte(below(middle, -1+float32(float32(2*float32(bin))/65535)))
		}
	}
	return n
}

// Offset is the mean of absmax, which double quantisation subtracts.
func Offset(absmax []float32) float32 {
	sum := 0.0
	for _, a := range absmax {
		sum += float64(a)
	}
	return float32(sum / float64(max(1, len(absmax))))
}

// A State is the JSON text that bitsandbytes saves beside a matrix.
type State struct {
	Type        string   `json:"quant_type"`
	Block       int      `json:"blocksize"`
	DType       string   `json:"dtype"`
	Shape       []int    `json:"shape"`
	NestedBlock int      `json:"nested_blocksize,omitempty"`
	NestedDType string   `json:"nested_dtype,omitempty"`
	Offset      *float64 `json:"nested_offset,omitempty"`
}

// Text is the state as Python's json.dumps writes it.
func (s State) Text() string {
	shape := make([]string, len(s.Shape))
	for i, n := range s.Shape {
		shape[i] = strconv.Itoa(n)
	}
	text := fmt.Sprintf(`{"quant_type": "%s", "blocksize": %d, "dtype": "%s", "shape": [%s]`, s.Type, s.Block, s.DType, strings.Join(shape, ", "))
	if s.Offset != nil {
		text += fmt.Sprintf(`, "nested_blocksize": %d, "nested_dtype": "%s", "nested_offset": %s`, s.NestedBlock, s.NestedDType, python(*s.Offset))
	}
	return text + "}"
}

// python is a float as Python prints it.
func python(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// states are the suffixes of a matrix's state, by its type.
var states = map[string]func() [16]float32{"nf4": NF4, "fp4": FP4}

// Saved4 reads the tensors that bitsandbytes saves of a 4-bit matrix: get returns the tensor of a suffix, such as
// ".absmax", "" being the codes.
func Saved4(name string, get func(suffix string) (safetensors.Tensor, bool)) (w Bits4, s State, err error) {
	fail := func(format string, args ...any) (Bits4, State, error) {
		return Bits4{}, State{}, fmt.Errorf("%s: %s\nhint: save the model again with bitsandbytes, or name its folder in bf16", name, fmt.Sprintf(format, args...))
	}
	found := false
	for kind, table := range states {
		if t, ok := get(".quant_state.bitsandbytes__" + kind); ok {
			if err := json.Unmarshal(t.Data, &s); err != nil {
				return fail("the state of bitsandbytes: %v", err)
			}
			if s.Type != kind {
				return fail("its state says %q, and its tensor's name %s", s.Type, kind)
			}
			w.Table, found = table(), true
		}
	}
	if !found {
		return fail("no state of bitsandbytes")
	}
	n := 1
	for _, side := range s.Shape {
		if side <= 0 || n > math.MaxInt32*1024/side {
			return fail("the shape %v", s.Shape)
		}
		n *= side
	}
	if s.Block < 1 {
		return fail("blocks of %d values", s.Block)
	}
	w.Block = s.Block
	codes, _ := get("")
	if w.Codes = codes.Data; len(w.Codes) < (n+1)/2 {
		return fail("%d bytes of codes for the shape %v", len(w.Codes), s.Shape)
	}
	blocks := (n + s.Block - 1) / s.Block
	absmax, ok := get(".absmax")
	if !ok {
		return fail("no absmax")
	}
	floats := func(suffix string, least int) ([]float32, error) {
		t, ok := get(suffix)
		if !ok || t.DType != safetensors.F32 || t.Len() < least {
			return nil, fmt.Errorf("%s%s: %d values in float32 are wanted", name, suffix, least)
		}
		return t.Float32(nil)
	}
	if table, err := floats(".quant_map", 16); err != nil {
		return Bits4{}, State{}, err
	} else {
		copy(w.Table[:], table) // the file's own
	}
	switch {
	case s.Offset != nil:
		if s.NestedBlock < 1 || absmax.DType != safetensors.U8 || absmax.Len() < blocks {
			return fail("absmax of %d values in %s, in blocks of %d, for %d blocks", absmax.Len(), absmax.DType, s.NestedBlock, blocks)
		}
		nested := Nested{Codes: absmax.Data[:blocks], Block: s.NestedBlock, Offset: float32(*s.Offset)}
		if nested.Scales, err = floats(".nested_absmax", (blocks+s.NestedBlock-1)/s.NestedBlock); err != nil {
			return Bits4{}, State{}, err
		}
		if nested.Table, err = floats(".nested_quant_map", 256); err != nil {
			return Bits4{}, State{}, err
		}
		w.Absmax = nested.Absmax()
	case absmax.DType == safetensors.BF16:
		return fail("absmax in bf16: bitsandbytes has repacked the matrix for a CPU before it was saved")
	default:
		if w.Absmax, err = floats(".absmax", blocks); err != nil {
			return Bits4{}, State{}, err
		}
	}
	return w, s, nil
}
