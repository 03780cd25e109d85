package cuda

import (
	"fmt"
	"strings"
)

// What computes products of bf16, as the environment asks.

// ModeVariable chooses who computes products of bf16, and more words after commas:
//
//	""       cuBLASLt where it opens and keeps the promises of choice.go, our own kernels elsewhere
//	"lt"     the same, but it is an error if it does not open
//	"own"    our own kernels on tensor cores ("tensor" says the same)
//	"exact"  by the definition of package ref, on the fp32 units; attention as well
//	"mma"    beside them: attention and our own products by mma.sync on Hopper as well, where they are by wgmma otherwise
//	"wait"   waits after each launch, so that an error names its operation
//	"apart"  no kernel starts beside the end of the one before (after_others of src/device.h)
const ModeVariable = "DARKROOM_CUDA"

type mode struct {
	products string // "", lt, own, exact
	wait     bool
	mma      bool // no kernels for Hopper
	apart    bool // kernels start one after another
}

// modes reads ModeVariable.
func modes(s string) (m mode, err error) {
	for word := range strings.SplitSeq(s, ",") {
		switch word {
		case "":
			continue
		case "wait":
			m.wait = true
			continue
		case "mma":
			m.mma = true
			continue
		case "apart":
			m.apart = true
			continue
		case "tensor":
			word = "own"
		case "lt", "own", "exact":
		default:
			return m, fmt.Errorf("%s=%s: it is made of lt, own or exact, and wait, mma, apart", ModeVariable, s)
		}
		if m.products != "" && m.products != word {
			return m, fmt.Errorf("%s=%s: one of lt, own and exact", ModeVariable, s)
		}
		m.products = word
	}
	return m, nil
}

// beginProducts opens cuBLASLt where it is wanted.
func (b *Backend) beginProducts(version int) (err error) {
	switch b.mode.products {
	case "own", "exact":
		b.without = ModeVariable + "=" + b.mode.products
		return nil
	}
	if b.products, err = b.openLibraryProducts(version); err == nil {
		return nil
	}
	if b.mode.products == "lt" {
		return fmt.Errorf("%s=lt: %w", ModeVariable, err)
	}
	b.without = err.Error()
	return nil
}
