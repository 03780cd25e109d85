package ref

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Unpack computes rows lo to hi-1 of Dst. Arithmetic is IEEE's, without the flushing of arith.go.
func Unpack(a *kernels.Unpack, lo, hi int) {
	cols, scales, least := a.Dst.Cols, a.Scale.Values.F32(), a.Min.Values.F32()
	for r := lo; r < hi; r++ {
		for c := range cols {
			min := float32(0) // v - 0 is v
			if least != nil {
				min = least[a.Min.At(r, c, cols)]
			}
			i := r*cols + c
			UnpackRun(a, i, i+1, r*a.Dst.Stride+c, scales[a.Scale.At(r, c, cols)], min)
		}
	}
}

// UnpackRun computes elements lo to hi-1, of one scale and one minimum, to place at of Dst's memory and on.
func UnpackRun(a *kernels.Unpack, lo, hi, at int, scale, min float32) {
	codes, table := a.Codes.Raw(), a.Table.F32()
	for i := lo; i < hi; i++ {
		v := float32(table[codeAt(a, codes, i)] * scale)
		if a.Over != 0 {
			v = float32(v * a.Over)
		}
		storeExact(a.Dst.Span, at+i-lo, float32(v-min))
	}
}

// codeAt is the code of element i.
func codeAt(a *kernels.Unpack, codes []byte, i int) byte {
	switch {
	case a.Bits == 8:
		return codes[i]
	case a.Low == (i%2 == 0):
		return codes[i/2] & 15
	}
	return codes[i/2] >> 4
}

// storeExact rounds a number into an element of f32, bf16 or f16, and keeps denormals.
func storeExact(s kernels.Span, i int, v float32) {
	switch s.DType {
	case kernels.F32:
		s.F32()[i] = v
	case kernels.BF16:
		s.BF16()[i] = ExactBF16(v)
	default:
		h := ToF16(v)
		copy(s.Raw()[2*i:], []byte{byte(h), byte(h >> 8)})
	}
}

// ExactBF16 is ToBF16 with denormals.
func ExactBF16(v float32) uint16 {
	u := math.Float32bits(v)
	if u&0x7fff_ffff > 0x7f80_0000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// Unpack computes every row.
func (Backend) Unpack(a *kernels.Unpack) {
	a.Check()
	Unpack(a, 0, a.Dst.Rows)
}
