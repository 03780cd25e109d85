package ref

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

var _ kernels.Offloader = Backend{}

// A weight's home is the memory that products read, so nothing is copied and there is no ring. A compressed weight is
// written in full by Fetch.

// Reserve does nothing.
func (Backend) Reserve(int) {}

// Store leaves the weight where it is: all homes are this memory.
func (Backend) Store(w *kernels.Packed, home kernels.Home) (*kernels.Stored, error) {
	return &kernels.Stored{Packed: *w, Home: home}, nil
}

// StoreCodes keeps the codes in this memory.
func (b Backend) StoreCodes(c kernels.Codes, w kernels.Packed, values kernels.DType, home kernels.Home) (*kernels.Stored, error) {
	if err := CheckCodes(&w, values); err != nil {
		return nil, err
	}
	w.Buf = b.Alloc(c.Size())
	c.Write(w.Buf.Host[:c.Size()])
	return &kernels.Stored{Packed: w, Home: home, Codes: c}, nil
}

// CheckCodes refuses values that would be rounded twice.
func CheckCodes(w *kernels.Packed, values kernels.DType) error {
	if values != w.DType() {
		return fmt.Errorf("a compressed weight of %s for products in %s: its values must be %s", values, w.Math, w.DType())
	}
	return nil
}

// Fetch is the weight where it lies, or in full.
func (b Backend) Fetch(s *kernels.Stored) *kernels.Packed { return FetchOn(b, s) }

// FetchOn is Fetch of a backend whose memory is the host's.
func FetchOn(b kernels.Backend, s *kernels.Stored) *kernels.Packed {
	if s.Codes == nil {
		return &s.Packed
	}
	whole := b.Alloc(s.N * s.K * s.DType().Size())
	defer b.Free(whole)
	m := kernels.NewMat(kernels.Span{Buf: whole, Len: s.N * s.K, DType: s.DType()}, s.N, s.K)
	b.Unpack(s.Codes.In(s.Buf, 0, m))
	if s.Conv.KH > 0 {
		return b.PackConv(m.Span, s.Conv, s.Math)
	}
	return b.Pack(m, s.Math)
}

// Await does nothing: there is no copy.
func (Backend) Await(*kernels.Packed) {}

// Release does nothing: the collector takes a weight that was compressed.
func (Backend) Release(*kernels.Packed) {}

// Discard leaves the memory to the collector.
func (Backend) Discard(s *kernels.Stored) { s.Buf = nil }
