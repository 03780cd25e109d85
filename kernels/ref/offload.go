package ref

import "github.com/darkroom-rl/darkroom/kernels"

var _ kernels.Offloader = Backend{}

// A weight's home is the memory that products read, so nothing is copied and there is no ring.

// Reserve does nothing.
func (Backend) Reserve(int) {}

// Store leaves the weight where it is: all homes are this memory.
func (Backend) Store(w *kernels.Packed, home kernels.Home) (*kernels.Stored, error) {
	return &kernels.Stored{Packed: *w, Home: home}, nil
}

// Fetch is the weight where it lies.
func (Backend) Fetch(s *kernels.Stored) *kernels.Packed { return &s.Packed }

// Await does nothing: there is no copy.
func (Backend) Await(*kernels.Packed) {}

// Release does nothing.
func (Backend) Release(*kernels.Packed) {}

// Discard leaves the memory to the collector.
func (Backend) Discard(s *kernels.Stored) { s.Buf = nil }
