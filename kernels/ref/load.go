package ref

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

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
