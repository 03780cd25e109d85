package nn

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Frozen weights that are lent (Options.Lend): read, packed, used and freed, product by product. It is how a network
// fits beside another one, for the few passes that compare the two.
//
// Invariant (test): outputs have the bits of a network that keeps its weights.

// lend is a frozen weight that lies nowhere until a product reads it.
func (r *root) lend(e *entry, k kind, conv kernels.ConvShape, shape []int) *autograd.Param {
	stored := shape
	if k == turned {
		e.turned = true
		shape = []int{stored[1], stored[0]}
	}
	return autograd.NewLent(e.name, shape, conv, r.Pool, &r.desk, func() *kernels.Packed {
		r := *r // with a pool that keeps nothing
		r.Pool = tensor.NewPool(r.Pool.Backend())
		defer r.Pool.Trim()
		src, err := r.read(e)
		if err != nil {
			panic(unread{fmt.Errorf("reading weights once more: %w", err)})
		}
		t, err := r.upload(src, stored, conv, false)
		if err != nil {
			panic(unread{fmt.Errorf("reading %s once more: %w", e.name, err)})
		}
		if k == turned {
			u := r.transposed(t)
			t.Free()
			t = u
		}
		defer t.Free()
		return r.pack(t, conv)
	})
}

// unread is a kernels.DeviceError: a product could not be computed, since its weight cannot be read any more.
type unread struct{ error }

// OnDevice says where the weight was to come from.
func (unread) OnDevice() string { return "disk" }
