package quant

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Integers with a scale a row, a group or a matrix.
//
//	LLM.int8 of bitsandbytes   value = (q * SCB) * float32(1/127), SCB the largest magnitude of a row of float16
//	ComfyUI, torchao           value = q * scale in float32
//	quanto                     value = scale * q, rounded to the weight's precision
//	torchao, 4 bits            value = q * scale, rounded; groups of a row
//	quanto, 4 bits             value = round(scale * q) - shift, rounded

// Int8 is a weight of 8 or fewer bits.
type Int8 struct {
	Codes []byte // of int8
	Scale Grid
	Over  float32 // a second factor: 1/127 for LLM.int8, 1 for others
}

// Unpack is Weight's.
func (w Int8) Unpack(dst []float32, at int) {
	for k := range dst {
		dst[k] = float32(int8(w.Codes[at+k])) * w.Scale.at(at+k)
		if w.Over != 1 {
			dst[k] *= w.Over
		}
	}
}

// Grain is Weight's.
func (w Int8) Grain() int { return 1 }

// Bytes is Weight's.
func (w Int8) Bytes() int { return len(w.Codes) + 4*len(w.Scale.Scales) }

// LLMInt8 is a matrix as bitsandbytes saves it: codes, and the largest magnitude of each row.
func LLMInt8(codes []byte, scb []float32) Int8 {
	return Int8{Codes: codes, Scale: byRow(scb, len(codes)/max(1, len(scb))), Over: float32(1.0 / 127)}
}

func byRow(scales []float32, columns int) Grid {
	return Grid{Scales: scales, Columns: columns, Rows: 1}
}

// integer is the nearest integer, ties to even, within bounds.
func integer(v float32, least, most float64) int8 {
	return int8(min(max(math.RoundToEven(float64(v)), least), most))
}

// QuantizeLLMInt8 is bitsandbytes' quantiser: the matrix is rounded to float16 before.
func QuantizeLLMInt8(values []float32, columns int) Int8 {
	scb := make([]float32, len(values)/max(1, columns))
	codes := make([]byte, len(values))
	chunks(len(scb)*columns, columns, func(from, to int) {
		row := make([]float32, columns)
		for ; from < to; from += columns {
			copy(row, values[from:])
			Round(safetensors.F16, row)
			most := largest(row)
			scb[from/columns] = most
			if most == 0 {
				continue // undefined upstream
			}
			by := float32(1/most) * 127
			for i, v := range row {
				codes[from+i] = byte(integer(v*by, -128, 127))
			}
		}
	})
	return LLMInt8(codes, scb)
}

// QuantizeTorchao is torchao's int8 of rows, of a weight in a precision.
func QuantizeTorchao(values []float32, columns int, d safetensors.DType) Int8 {
	w := Int8{Codes: make([]byte, len(values)), Scale: byRow(nil, columns), Over: 1}
	for from := 0; from < len(values); from += columns {
		row := values[from : from+columns]
		scale := max(round(d, largest(row)/127.5), 0x1p-23)
		for i, v := range row {
			w.Codes[from+i] = byte(integer(v*float32(1/scale), -128, 127))
		}
		w.Scale.Scales = append(w.Scale.Scales, scale)
	}
	return w
}

// QuantizeQuanto is optimum-quanto's qint8 of rows.
func QuantizeQuanto(values []float32, columns int, d safetensors.DType) Int8 {
	w := Int8{Codes: make([]byte, len(values)), Scale: byRow(nil, columns), Over: 1}
	for from := 0; from < len(values); from += columns {
		row := values[from : from+columns]
		scale := round(d, largest(row)/127)
		for i, v := range row {
			w.Codes[from+i] = byte(integer(round(d, v/scale), -128, 127))
		}
		w.Scale.Scales = append(w.Scale.Scales, scale)
	}
	return w
}

// QuantizeComfy is ComfyUI's int8 of a matrix, or of its rows.
func QuantizeComfy(values []float32, columns int, d safetensors.DType, rows bool) Int8 {
	w := Int8{Codes: make([]byte, len(values)), Scale: byRow(nil, columns), Over: 1}
	part := columns
	if !rows {
		w.Scale.Rows, part = 0, len(values)
	}
	for from := 0; from < len(values); from += part {
		scale := max(largest(values[from:from+part])/127, 1e-30)
		for i, v := range values[from : from+part] {
			w.Codes[from+i] = byte(integer(round(d, v/round(d, scale)), -128, 127))
		}
		w.Scale.Scales = append(w.Scale.Scales, scale)
	}
	return w
}

// QuantizeTorchao4 is torchao's int4 of groups of a row, one code a byte.
func QuantizeTorchao4(values []float32, columns, group int, d safetensors.DType) Int8 {
	w := Int8{Codes: make([]byte, len(values)), Scale: Grid{Columns: columns, Rows: 1, Across: group}, Over: 1}
	for from := 0; from < len(values); from += group {
		part := values[from : from+group]
		scale := round(d, largest(part)/7.5)
		inverse := round(d, 1/scale)
		for i, v := range part {
			w.Codes[from+i] = byte(integer(round(d, v*inverse), -8, 7))
		}
		w.Scale.Scales = append(w.Scale.Scales, scale)
	}
	return w
}

// Shifted4 is quanto's qint4: codes from 0 to 15 of groups of the flattened matrix, a scale and a shift each.
type Shifted4 struct {
	Codes         []int8
	Scales, Shift []float32
	Group         int
	DType         safetensors.DType
}

// Unpack is Weight's.
func (w Shifted4) Unpack(dst []float32, at int) {
	for k := range dst {
		g := (at + k) / w.Group
		dst[k] = float32(round(w.DType, w.Scales[g]*float32(w.Codes[at+k]))) - w.Shift[g]
	}
}

// Grain is Weight's.
func (w Shifted4) Grain() int { return 1 }

// Bytes is Weight's: of codes as they lie in memory.
func (w Shifted4) Bytes() int { return len(w.Codes) + 8*len(w.Scales) }

// Packed has two codes a byte: of the first half of the groups in the low nibbles, of the second in the high ones.
func (w Shifted4) Packed() []byte {
	half := len(w.Codes) / w.Group / 2 * w.Group
	packed := make([]byte, half)
	for i := range packed {
		packed[i] = byte(w.Codes[i]) | byte(w.Codes[half+i])<<4
	}
	return packed
}

// QuantizeQuanto4 is optimum-quanto's qint4.
func QuantizeQuanto4(values []float32, group int, d safetensors.DType) Shifted4 {
	w := Shifted4{Codes: make([]int8, len(values)), Group: group, DType: d}
	for from := 0; from < len(values); from += group {
		part := values[from : from+group]
		low, high := part[0], part[0]
		for _, v := range part {
			low, high = min(low, v), max(high, v)
		}
		scale, shift := round(d, round(d, high-low)/15), -low
		for i, v := range part {
			w.Codes[from+i] = integer(round(d, round(d, v+shift)/scale), 0, 15)
		}
		w.Scales, w.Shift = append(w.Scales, scale), append(w.Shift, shift)
	}
	return w
}
