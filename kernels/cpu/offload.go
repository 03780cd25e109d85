package cpu

import "github.com/darkroom-rl/darkroom/kernels"

var _ kernels.Offloader = (*Backend)(nil)

// Discard frees the weight's memory. The rest of an Offloader is ref's: weights are read where they lie, by all ranks.
func (b *Backend) Discard(s *kernels.Stored) {
	b.Free(s.Buf)
	s.Buf = nil
}
