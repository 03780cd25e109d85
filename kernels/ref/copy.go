package ref

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Copy moves the box whose first axis longer than one is cut to lo to hi-1; see
// CopyRows. Between equal types bits are moved as they are; a cast goes through fp32.
func Copy(a *kernels.Copy, lo, hi int) {
	cut := CopyAxis(a)
	from, to := [5]int{}, a.Shape
	from[cut], to[cut] = lo, hi
	if lo >= hi || slices.Contains(to[:], 0) {
		return
	}
	for index := from; ; {
		src, dst := 0, 0
		for i, x := range index {
			src += x * a.SrcStride[i]
			dst += x * a.DstStride[i]
		}
		copyOne(a, src, dst)
		axis := 4
		for ; axis >= 0; axis-- {
			if index[axis]++; index[axis] < to[axis] {
				break
			}
			index[axis] = from[axis]
		}
		if axis < 0 {
			return
		}
	}
}

// CopyAxis is the axis along which a copy is cut into pieces, and CopyRows its length.
func CopyAxis(a *kernels.Copy) int {
	for i, n := range a.Shape {
		if n > 1 {
			return i
		}
	}
	return 4
}

// CopyRows is the length of the axis that a copy is cut along.
func CopyRows(a *kernels.Copy) int { return a.Shape[CopyAxis(a)] }

func copyOne(a *kernels.Copy, src, dst int) {
	if a.Src.DType == a.Dst.DType && !a.Accumulate {
		n := a.Src.DType.Size()
		copy(a.Dst.Raw()[dst*n:(dst+1)*n], a.Src.Raw()[src*n:])
		return
	}
	v := number(a.Src, src)
	if a.Accumulate {
		v = Add(number(a.Dst, dst), v)
	}
	if a.Dst.DType == kernels.F16 {
		h := ToF16(v)
		copy(a.Dst.Raw()[2*dst:], []byte{byte(h), byte(h >> 8)})
		return
	}
	Store(a.Dst, dst, []float32{v})
}

// number is one element in fp32.
func number(s kernels.Span, i int) float32 {
	if s.DType == kernels.F16 {
		b := s.Raw()[2*i:]
		return FromF16(uint16(b[0]) | uint16(b[1])<<8)
	}
	var x [1]float32
	Load(x[:], s, i)
	return x[0]
}

// FromF16 widens a half: exactly, its denormals too.
func FromF16(h uint16) float32 {
	sign, e, m := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch e {
	case 31:
		return math.Float32frombits(sign | 0x7f80_0000 | m<<13)
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(m)*0x1p-24))
	}
	return math.Float32frombits(sign | (e+112)<<23 | m<<13)
}

// ToF16 rounds to the nearest half, ties to even, with denormal halves.
func ToF16(x float32) uint16 {
	u := math.Float32bits(x)
	sign, abs := uint16(u>>16)&0x8000, u&0x7fff_ffff
	switch {
	case abs > 0x7f80_0000:
		return sign | 0x7e00 | uint16(abs>>13)&0x3ff
	case abs >= 0x477f_f000: // 65520 and above round to infinity
		return sign | 0x7c00
	case abs < 0x3880_0000: // below 2^-14: a multiple of 2^-24
		v := math.Float32frombits(abs)
		return sign | uint16(math.RoundToEven(float64(v)*0x1p24))
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-112<<23)>>13)
}

// Copy moves the whole box.
func (Backend) Copy(a *kernels.Copy) {
	if a.Accumulate && a.Dst.DType == kernels.F16 {
		panic(fmt.Sprintf("kernels: Copy adds to %s", a.Dst.DType))
	}
	Copy(a, 0, CopyRows(a))
}

// Loads and stores: an operation's loop works on rows of float32, whatever the
// memory holds. Denormals are flushed on the way in.

// Load widens elements of s, from index i on, into dst.
func Load(dst []float32, s kernels.Span, i int) {
	switch s.DType {
	case kernels.F32:
		src := s.F32()[i : i+len(dst)]
		for j, x := range src {
			dst[j] = Flush(x)
		}
	case kernels.BF16:
		src := s.BF16()[i : i+len(dst)]
		for j, x := range src {
			dst[j] = Flush(FromBF16(x))
		}
	default:
		panic(fmt.Sprintf("ref: arithmetic on %s", s.DType))
	}
}

// Store rounds src into the elements of s from index i on.
func Store(s kernels.Span, i int, src []float32) {
	switch s.DType {
	case kernels.F32:
		dst := s.F32()[i : i+len(src)]
		for j, x := range src {
			dst[j] = Flush(x)
		}
	case kernels.BF16:
		dst := s.BF16()[i : i+len(src)]
		for j, x := range src {
			dst[j] = ToBF16(x)
		}
	default:
		panic(fmt.Sprintf("ref: arithmetic on %s", s.DType))
	}
}

// LoadRow widens row r of m into dst, which is as long as the row.
func LoadRow(dst []float32, m kernels.Mat, r int) { Load(dst[:m.Cols], m.Span, r*m.Stride) }

// StoreRow rounds src into row r of m.
func StoreRow(m kernels.Mat, r int, src []float32) { Store(m.Span, r*m.Stride, src[:m.Cols]) }

// Embedding copies rows of the table, for rows lo to hi-1 of Y.
func Embedding(a *kernels.Embedding, lo, hi int) {
	row := make([]float32, a.Table.Cols)
	for r := lo; r < hi; r++ {
		LoadRow(row, a.Table, int(a.Index.I32()[r]))
		StoreRow(a.Y, r, row)
	}
}

// EmbeddingBackward adds rows of DY to rows of DTable, in order, at columns lo to hi-1.
func EmbeddingBackward(a *kernels.EmbeddingBackward, lo, hi int) {
	row := make([]float32, hi-lo)
	for r := range a.DY.Rows {
		Load(row, a.DY.Span, r*a.DY.Stride+lo)
		at := int(a.Index.I32()[r])*a.DTable.Stride + lo
		addTo(a.DTable.Span.Slice(at, at+hi-lo), row)
	}
}

// Embedding computes every row.
func (Backend) Embedding(a *kernels.Embedding) { Embedding(a, 0, a.Y.Rows) }

// EmbeddingBackward computes every column.
func (Backend) EmbeddingBackward(a *kernels.EmbeddingBackward) { EmbeddingBackward(a, 0, a.DY.Cols) }
