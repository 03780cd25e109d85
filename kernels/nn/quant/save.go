package quant

import (
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Compressed matrices as files have them: the tensors that take the place of X.weight. find.go reads them.

// A Saving is how matrices are compressed, and under which names they are saved.
type Saving struct {
	Name string // "nf4"
	Card string
	// Tensors are the saved ones, without data, of a matrix in a precision.
	Tensors func(name string, d safetensors.DType, shape []int) []safetensors.Tensor
	// Save compresses a matrix: the data of these tensors, in their order, and the matrix that they stand for. Values
	// come as strips of its rows, in their order, of StripRows or multiples of them; the last strip may be shorter.
	Save func(name string, d safetensors.DType, shape []int, values iter.Seq[[]float32]) ([][]byte, Matrix)
}

// StripRows are rows that no block crosses.
const StripRows = 128

// block4 and block8 are lengths of bitsandbytes' blocks.
const (
	block4 = 64
	block8 = 256
)

// stateRoom is the length of a nested state's offset: the header comes before the data, and states end with spaces.
const stateRoom = 26

// names of a state's precisions.
var stateNames = map[safetensors.DType]string{safetensors.F32: "float32", safetensors.BF16: "bfloat16", safetensors.F16: "float16"}

// Bitsandbytes4 is nf4 or fp4, with the absmax in 8 bits if they are nested.
func Bitsandbytes4(kind string, nested bool) Saving {
	table := states[kind]()
	state := func(d safetensors.DType, shape []int, offset float64) string {
		s := State{Type: kind, Block: block4, DType: stateNames[d], Shape: shape}
		if nested {
			s.NestedBlock, s.NestedDType, s.Offset = block8, "float32", &offset
		}
		return s.Text()
	}
	room := func(d safetensors.DType, shape []int) int {
		if !nested {
			return len(state(d, shape, 0))
		}
		return len(state(d, shape, 0)) - len(python(0)) + stateRoom
	}
	return Saving{Name: kind, Card: "bitsandbytes, 4 bits a value and a scale of 64 values",
		Tensors: func(name string, d safetensors.DType, shape []int) []safetensors.Tensor {
			n := elements(shape)
			blocks := parts(n, block4)
			all := []safetensors.Tensor{
				{Name: name, DType: safetensors.U8, Shape: []int{parts(n, 2), 1}},
				{Name: name + ".quant_map", DType: safetensors.F32, Shape: []int{16}},
				{Name: name + ".quant_state.bitsandbytes__" + kind, DType: safetensors.U8, Shape: []int{room(d, shape)}},
			}
			if !nested {
				return append(all, safetensors.Tensor{Name: name + ".absmax", DType: safetensors.F32, Shape: []int{blocks}})
			}
			return append(all, safetensors.Tensor{Name: name + ".absmax", DType: safetensors.U8, Shape: []int{blocks}},
				safetensors.Tensor{Name: name + ".nested_absmax", DType: safetensors.F32, Shape: []int{parts(blocks, block8)}},
				safetensors.Tensor{Name: name + ".nested_quant_map", DType: safetensors.F32, Shape: []int{256}})
		},
		Save: func(name string, d safetensors.DType, shape []int, values iter.Seq[[]float32]) ([][]byte, Matrix) {
			n := elements(shape)
			w := Bits4{Table: table, Block: block4, Codes: make([]byte, 0, parts(n, 2)), Absmax: make([]float32, 0, parts(n, block4))}
			for strip := range values {
				s := Quantize4(strip, table, block4)
				w.Codes, w.Absmax = append(w.Codes, s.Codes...), append(w.Absmax, s.Absmax...)
			}
			data := [][]byte{w.Codes, bytesOf(table[:])}
			if !nested {
				data = append(data, []byte(state(d, shape, 0)), bytesOf(w.Absmax))
			} else {
				offset := Offset(w.Absmax)
				n := QuantizeNested(w.Absmax, offset, block8)
				text := state(d, shape, float64(offset))
				text += strings.Repeat(" ", max(0, room(d, shape)-len(text)))
				data = append(data, []byte(text), n.Codes, bytesOf(n.Scales), bytesOf(n.Table))
				w.Absmax = n.Absmax()
			}
			return data, Matrix{Weight: w, Name: name, Shape: shape, DType: d, Format: kind}
		}}
}

// BitsandbytesInt8 is LLM.int8: integers, and the largest magnitude of each row.
func BitsandbytesInt8() Saving {
	return Saving{Name: "int8", Card: "bitsandbytes' LLM.int8, 8 bits a value and a scale of a row",
		Tensors: func(name string, _ safetensors.DType, shape []int) []safetensors.Tensor {
			stem := strings.TrimSuffix(name, ".weight")
			return []safetensors.Tensor{{Name: name, DType: safetensors.I8, Shape: shape},
				{Name: stem + ".SCB", DType: safetensors.F32, Shape: shape[:1]}, {Name: stem + ".weight_format", DType: safetensors.U8}}
		},
		Save: func(name string, d safetensors.DType, shape []int, values iter.Seq[[]float32]) ([][]byte, Matrix) {
			codes, scb := make([]byte, 0, elements(shape)), make([]float32, 0, shape[0])
			for strip := range values {
				s := QuantizeLLMInt8(strip, shape[1])
				codes, scb = append(codes, s.Codes...), append(scb, s.Scale.Scales...)
			}
			w := LLMInt8(codes, scb)
			return [][]byte{w.Codes, bytesOf(w.Scale.Scales), {0}}, Matrix{Weight: w, Name: name, Shape: shape, DType: d, Format: "llm.int8"}
		}}
}

// ComfyFloat8 is ComfyUI's fp8_scaled: e4m3, a scale of the matrix, and a mark.
func ComfyFloat8() Saving {
	return comfy("fp8", "ComfyUI's fp8_scaled, 8 bits a value and a scale of the matrix", safetensors.F8E4M3, "float8_e4m3fn", nil,
		func(d safetensors.DType, shape []int, values iter.Seq[[]float32]) (Weight, []byte, []float32) {
			most := float32(0)
			for strip := range values {
				most = max(most, largest(strip))
			}
			w := Float8{Form: safetensors.F8E4M3, Codes: make([]byte, 0, elements(shape)), Scale: Grid{Scales: []float32{comfyScale(safetensors.F8E4M3, most, d)}, Columns: shape[1]}}
			for strip := range values {
				w.Codes = append(w.Codes, scaled8(w.Form, strip, w.Scale, divided)...)
			}
			if w.Scale.Scales[0] == 0 { // of a matrix of zeros, which would be NaN
				w.Scale.Scales[0] = 1
				clear(w.Codes)
			}
			return w, w.Codes, w.Scale.Scales
		})
}

// ComfyInt8 is ComfyUI's int8 of rows.
func ComfyInt8() Saving {
	return comfy("int8", "ComfyUI's int8, 8 bits a value and a scale of a row", safetensors.I8, "int8_tensorwise", func(shape []int) []int { return []int{shape[0], 1} },
		func(d safetensors.DType, shape []int, values iter.Seq[[]float32]) (Weight, []byte, []float32) {
			w := Int8{Scale: byRow(nil, shape[1]), Over: 1}
			for strip := range values {
				s := QuantizeComfy(strip, shape[1], d, true)
				w.Codes, w.Scale.Scales = append(w.Codes, s.Codes...), append(w.Scale.Scales, s.Scale.Scales...)
			}
			return w, w.Codes, w.Scale.Scales
		})
}

func comfy(name, card string, codes safetensors.DType, form string, scales func(shape []int) []int,
	compress func(d safetensors.DType, shape []int, values iter.Seq[[]float32]) (Weight, []byte, []float32)) Saving {
	mark := fmt.Appendf(nil, `{"format": %q}`, form)
	return Saving{Name: name, Card: card,
		Tensors: func(name string, _ safetensors.DType, shape []int) []safetensors.Tensor {
			stem := strings.TrimSuffix(name, ".weight")
			scale := safetensors.Tensor{Name: stem + ".weight_scale", DType: safetensors.F32}
			if scales != nil {
				scale.Shape = scales(shape)
			}
			return []safetensors.Tensor{{Name: name, DType: codes, Shape: shape}, scale, {Name: stem + ".comfy_quant", DType: safetensors.U8, Shape: []int{len(mark)}}}
		},
		Save: func(name string, d safetensors.DType, shape []int, values iter.Seq[[]float32]) ([][]byte, Matrix) {
			w, codes, scale := compress(d, shape, values)
			return [][]byte{codes, bytesOf(scale), mark}, Matrix{Weight: w, Name: name, Shape: shape, DType: d, Format: form}
		}}
}

// BlockFloat8 is DeepSeek's form, which transformers reads: e4m3, and a scale of 128 x 128 values.
func BlockFloat8() Saving {
	return Saving{Name: "fp8", Card: "transformers' fp8, 8 bits a value and a scale of 128 x 128 values",
		Tensors: func(name string, _ safetensors.DType, shape []int) []safetensors.Tensor {
			return []safetensors.Tensor{{Name: name, DType: safetensors.F8E4M3, Shape: shape},
				{Name: name + "_scale_inv", DType: safetensors.F32, Shape: []int{parts(shape[0], 128), parts(shape[1], 128)}}}
		},
		Save: func(name string, d safetensors.DType, shape []int, values iter.Seq[[]float32]) ([][]byte, Matrix) {
			w := Float8{Form: safetensors.F8E4M3, Codes: make([]byte, 0, elements(shape)), Scale: Grid{Columns: shape[1], Rows: StripRows, Across: 128}}
			for strip := range values {
				s := QuantizeBlock8(strip, w.Scale, false)
				w.Codes, w.Scale.Scales = append(w.Codes, s.Codes...), append(w.Scale.Scales, s.Scale.Scales...)
			}
			return [][]byte{w.Codes, bytesOf(w.Scale.Scales)}, Matrix{Weight: w, Name: name, Shape: shape, DType: d, Format: "fp8"}
		}}
}

func elements(shape []int) int {
	n := 1
	for _, side := range shape {
		n *= side
	}
	return n
}

func parts(n, size int) int { return (n + size - 1) / size }

func bytesOf(x []float32) []byte { return safetensors.FromF32("", []int{len(x)}, x).Data }

// Distance is the root of the mean square of what compressing changes, over that of the values.
func (m Matrix) Distance(values []float32) float64 {
	n := parts(len(values), part)
	off, all := make([]float64, n), make([]float64, n)
	m.pieces(len(values), func(i int, unpacked []float32) {
		for k, v := range unpacked {
			w := float64(values[i*part+k])
			d := float64(v) - w
			off[i] += float64(d * d)
			all[i] += float64(w * w)
		}
	})
	var o, a float64
	for i := range off {
		o, a = o+off[i], a+all[i]
	}
	if a == 0 {
		return 0
	}
	return math.Sqrt(o / a)
}

// Fingerprint are check sums of unpacked values, of each run of 65,536.
func (m Matrix) Fingerprint() []uint32 {
	n := elements(m.Shape)
	sums := make([]uint32, parts(n, part))
	m.pieces(n, func(i int, unpacked []float32) { sums[i] = crc32.ChecksumIEEE(bytesOf(unpacked)) })
	return sums
}

// pieces unpacks n values, runs side by side.
func (m Matrix) pieces(n int, f func(i int, unpacked []float32)) {
	together(parts(n, part), func(i int) {
		unpacked := make([]float32, min(part, n-i*part))
		m.Unpack(unpacked, i*part)
		f(i, unpacked)
	})
}
