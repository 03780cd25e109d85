package quant

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// FP8 with scales.
//
//	value = float(byte) * scale   (float32, one rounding)
//
// e4m3fn has no infinity, and 448 is its largest value; e5m2's is 57344. A scale belongs to a matrix (ComfyUI's
// fp8_scaled), to a row or to a group of a row (musubi-tuner, torchao), or to a block of 128 x 128 (DeepSeek, Qwen).
// Scales of matrices, rows and groups are computed in the weight's precision, so that the largest value may pass 448:
// it is clamped.

// Float8 is such a weight.
type Float8 struct {
	Form  safetensors.DType // F8E4M3 or F8E5M2
	Codes []byte
	Scale Grid
}

// Unpack is Weight's.
func (w Float8) Unpack(dst []float32, at int) {
	for k := range dst {
		dst[k] = safetensors.FromF8(w.Form, w.Codes[at+k]) * w.Scale.at(at+k)
	}
}

// Grain is Weight's.
func (w Float8) Grain() int { return 1 }

// Bytes is Weight's.
func (w Float8) Bytes() int { return len(w.Codes) + 4*len(w.Scale.Scales) }

// Largest8 is the largest finite value of a form.
func Largest8(form safetensors.DType) float32 {
	if form == safetensors.F8E5M2 {
		return 57344
	}
	return 448
}

// Cast8 rounds to the nearest code, ties to even. What is too large becomes the largest finite value.
func Cast8(form safetensors.DType, v float32) byte {
	return cast8(form, min(max(v, -Largest8(form)), Largest8(form)))
}

// CastInfinite8 is Cast8 to e5m2 where what is too large becomes infinite.
func CastInfinite8(v float32) byte { return cast8(safetensors.F8E5M2, v) }

func cast8(form safetensors.DType, v float32) byte {
	fraction, bias, infinite := 3, 7, byte(0x7f)
	if form == safetensors.F8E5M2 {
		fraction, bias, infinite = 2, 15, 0x7c
	}
	sign := byte(math.Float32bits(v) >> 31 << 7)
	a := float64(magnitude(v))
	switch {
	case a != a:
		return sign | 0x7f
	case math.IsInf(a, 0):
		return sign | infinite
	case a == 0:
		return sign
	}
	_, exponent := math.Frexp(a) // a = m * 2^exponent, m from 1/2 to 1
	exponent = max(exponent-1, 1-bias)
	units := math.RoundToEven(math.Ldexp(a, fraction-exponent)) // a carry goes on into the exponent
	code := int(units)
	if units >= float64(int(1)<<fraction) {
		code += (exponent + bias - 1) << fraction
	}
	return sign | byte(min(code, int(infinite)))
}

// quantize8 divides each block by its scale, and casts.
func quantize8(form safetensors.DType, values []float32, g Grid, scale func(most float32) float32, scaled func(v, scale float32) float32) Float8 {
	w := Float8{Form: form, Scale: g}
	rows := len(values) / max(1, g.Columns)
	most := make([]float32, g.count(rows))
	g.blocks(rows, func(block, top, bottom, left, right int) {
		for r := top; r < bottom; r++ {
			most[block] = max(most[block], largest(values[r*g.Columns+left:r*g.Columns+right]))
		}
	})
	w.Scale.Scales = make([]float32, len(most))
	for i, m := range most {
		w.Scale.Scales[i] = scale(m)
	}
	w.Codes = scaled8(form, values, w.Scale, scaled)
	return w
}

// scaled8 are the codes of values by their scales.
func scaled8(form safetensors.DType, values []float32, g Grid, scaled func(v, scale float32) float32) []byte {
	codes := make([]byte, len(values))
	chunks(len(values), 1, func(from, to int) {
		for i := from; i < to; i++ {
			codes[i] = Cast8(form, scaled(values[i], g.at(i)))
		}
	})
	return codes
}

func divided(v, scale float32) float32 { return v / scale }

// QuantizeComfy8 is ComfyUI's fp8_scaled: one scale a matrix, computed in the weight's precision d.
func QuantizeComfy8(form safetensors.DType, values []float32, columns int, d safetensors.DType) Float8 {
	return quantize8(form, values, Grid{Columns: columns}, func(most float32) float32 { return comfyScale(form, most, d) }, divided)
}

func comfyScale(form safetensors.DType, most float32, d safetensors.DType) float32 {
	return round(d, most/Largest8(form))
}

// QuantizeTorchao8 is torchao's e4m3 of a matrix, of rows (rows = 1) or of groups of a row (across = 32).
func QuantizeTorchao8(values []float32, g Grid, d safetensors.DType) Float8 {
	return quantize8(safetensors.F8E4M3, values, g, func(most float32) float32 { return round(d, most/448) }, divided)
}

// QuantizeMusubi8 is musubi-tuner's: codes are divided by the scale in float32, and the file keeps it in the weight's
// precision, by which values are multiplied.
func QuantizeMusubi8(form safetensors.DType, values []float32, g Grid, d safetensors.DType) Float8 {
	return quantize8(form, values, g, func(most float32) float32 { return max(round(d, most/Largest8(form)), round(d, 1e-8)) }, divided)
}

// QuantizeBlock8 is DeepSeek's: the values of a block are multiplied by (1/most)*448, and the inverse is stored; as a
// power of two (e8m0) where power is set.
func QuantizeBlock8(values []float32, g Grid, power bool) Float8 {
	inverse := func(most float32) float32 {
		by := float32(1)
		if most > 0 {
			by = float32(1/most) * 448
		}
		by = 1 / by
		if power {
			m, e := math.Frexp(float64(by))
			if m == 0.5 {
				e--
			}
			by = float32(math.Ldexp(1, e))
		}
		return by
	}
	by := func(most float32) float32 {
		if power {
			return 1 / inverse(most)
		}
		if most > 0 {
			return float32(1/most) * 448
		}
		return 1
	}
	w := quantize8(safetensors.F8E4M3, values, g, by, func(v, s float32) float32 { return v * s })
	for i := range w.Scale.Scales {
		w.Scale.Scales[i] = 1 / w.Scale.Scales[i]
	}
	return w
}
