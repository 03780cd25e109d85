package nn

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Merging: W + s·B A takes the place of the packed base weight. Nothing of the base is
// kept aside: Unmerge reads the stored weight again and packs it, which gives the bytes
// that it had (packing is a function of the stored weight). So the source must be open.
//
// Invariant (tests): after Unmerge every packed byte is what it was.

// Merge folds the adapters into the base. Layers then cost what the base costs.
func (s *Adapters) Merge() error {
	if s.merged {
		return nil
	}
	if err := s.rebuild(true); err != nil {
		return err
	}
	s.merged = true
	return nil
}

// Unmerge restores the base exactly, with its adapters beside it.
func (s *Adapters) Unmerge() error {
	if !s.merged {
		return nil
	}
	if err := s.rebuild(false); err != nil {
		return err
	}
	s.merged = false
	return nil
}

// rebuild packs each base weight anew from storage, with the adapter's product or
// without. All are read before the first is replaced: an error leaves nothing half done
// (at the price of a second packed copy of these layers for that moment).
func (s *Adapters) rebuild(with bool) error {
	for _, ad := range s.list {
		if ad.module.experts != nil {
			return fmt.Errorf("LoRA: %s: an adapter on experts cannot be merged", ad.module.name)
		}
	}
	fresh := make([]*kernels.Packed, len(s.list))
	for i, ad := range s.list {
		w, err := ad.packed(with)
		if err != nil {
			for _, f := range fresh[:i] {
				s.root.Pool.Backend().Free(f.Buf)
			}
			return err
		}
		fresh[i] = w
	}
	for i, ad := range s.list {
		ad.module.weight().Repack(fresh[i])
	}
	return nil
}

func (ad *adapter) packed(with bool) (*kernels.Packed, error) {
	r, base := ad.set.root, ad.module.weight()
	src, err := r.read(r.entries[base.Name])
	if err != nil {
		return nil, err
	}
	t, err := r.upload(src, base.Shape, base.Conv, with)
	if err != nil {
		return nil, err
	}
	defer t.Free()
	if with {
		n := base.Shape[0]
		a, b := ad.a.param, ad.b.param
		k := a.Value.Len() / a.Shape[0]
		r.Pool.Backend().Gemm(&kernels.Gemm{Layout: kernels.NN, Math: kernels.MathF32, A: kernels.NewMat(b.Value.Span(), n, a.Shape[0]),
			B: kernels.NewMat(a.Value.Span(), a.Shape[0], k), C: kernels.NewMat(t.Span(), n, k), Alpha: ad.scale, Accumulate: true})
	}
	return r.pack(t, base.Conv), nil
}
