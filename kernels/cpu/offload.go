package cpu

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

var _ kernels.Offloader = (*Backend)(nil)

// The rest of an Offloader is ref's: weights are read where they lie, by all ranks.

// StoreCodes keeps the codes in this memory.
func (b *Backend) StoreCodes(c kernels.Codes, w kernels.Packed, values kernels.DType, home kernels.Home) (*kernels.Stored, error) {
	if err := ref.CheckCodes(&w, values); err != nil {
		return nil, err
	}
	w.Buf = b.Alloc(c.Size())
	c.Write(w.Buf.Host[:c.Size()])
	return &kernels.Stored{Packed: w, Home: home, Codes: c}, nil
}

// Fetch is the weight where it lies, or one written in full, which Release frees.
func (b *Backend) Fetch(s *kernels.Stored) *kernels.Packed {
	w := ref.FetchOn(b, s)
	if s.Codes != nil {
		if b.inFull == nil {
			b.inFull = map[*kernels.Packed]bool{}
		}
		b.inFull[w] = true
	}
	return w
}

// Release frees a weight that was written in full.
func (b *Backend) Release(w *kernels.Packed) {
	if b.inFull[w] {
		delete(b.inFull, w)
		b.Free(w.Buf)
	}
}

// Discard frees the memory of a stored weight.
func (b *Backend) Discard(s *kernels.Stored) {
	b.Free(s.Buf)
	s.Buf = nil
}
