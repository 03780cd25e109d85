package exchange

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Host is a wire through the program's memory: every piece is downloaded once, and all are uploaded to
// each rank. It serves any backends, two on one device among them.
type Host struct {
	ranks []kernels.Backend
	all   []byte // the last pieces
}

// NewHost joins backends.
func NewHost(ranks ...kernels.Backend) *Host { return &Host{ranks: ranks} }

// Gather is Wire's.
func (h *Host) Gather(from, into []kernels.Span) error {
	if err := Check(len(h.ranks), from, into); err != nil {
		return err
	}
	n := from[0].Len * from[0].DType.Size()
	if len(h.all) < n*len(h.ranks) {
		h.all = make([]byte, n*len(h.ranks))
	}
	for r, be := range h.ranks {
		be.Download(h.all[r*n:(r+1)*n], from[r])
	}
	for r, be := range h.ranks {
		be.Upload(into[r], h.all[:n*len(h.ranks)])
	}
	return nil
}

func (h *Host) String() string { return fmt.Sprintf("%d ranks, through host memory", len(h.ranks)) }

// Close lets its memory go.
func (h *Host) Close() error {
	h.all = nil
	return nil
}
