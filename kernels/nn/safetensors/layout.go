package safetensors

import (
	"cmp"
	"slices"
)

// layout checks that the tensors' data is exactly the file from byte start to
// byte size, each span of the size that shape and dtype ask for, no span shared
// and none left over. It sorts the tensors and makes their offsets absolute.
//
// Invariant: afterwards Tensors[0].Offset = start, each tensor begins where the
// one before it ends, and the last ends at size.
func (h *Header) layout(start, size int64) error {
	for _, t := range h.Tensors {
		want, err := sizeOf(t.DType, t.Shape)
		if err != nil {
			return tensorProblem(t.Name, hintWriter, "%v", err)
		}
		if t.Bytes != want {
			return tensorProblem(t.Name, hintWriter, "data_offsets [%d, %d] span %d bytes, but %s %v needs %d",
				t.Offset, t.Offset+t.Bytes, t.Bytes, t.DType, t.Shape, want)
		}
	}
	slices.SortFunc(h.Tensors, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	end, last := int64(0), ""
	for i := range h.Tensors {
		t := &h.Tensors[i]
		switch {
		case t.Offset > size-start || t.Bytes > size-start-t.Offset:
			// Both terms are below 2^63, so this comparison does not overflow.
			return tensorProblem(t.Name, hintAgain, "its data lies at bytes [%d, %d) after the header, but only %d bytes are there",
				t.Offset, uint64(t.Offset)+uint64(t.Bytes), size-start)
		case t.Offset < end:
			return tensorProblem(t.Name, hintWriter, "its data at offset %d overlaps that of %q, which ends at %d", t.Offset, shorten(last), end)
		case t.Offset > end:
			return tensorProblem(t.Name, hintWriter, "bytes [%d, %d) before its data belong to no tensor", end, t.Offset)
		}
		end, last = t.Offset+t.Bytes, t.Name
		t.Offset += start
	}
	if start+end != size {
		return problem(hintAgain, "%d bytes after the last tensor belong to none", size-start-end)
	}
	return nil
}
