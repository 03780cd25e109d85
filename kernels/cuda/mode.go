package cuda

import (
	"fmt"
	"strings"
)

// What computes products of bf16, as the environment asks.

// ModeVariable chooses who computes products of bf16, and more words after commas:
//
//	""       our own kernels where they go by wgmma; elsewhere cuBLASLt where it opens and keeps the promises of
//	         choice.go, and our own kernels where it does not
//	"lt"     cuBLASLt as promised there; it is an error if it does not open
//	"own"    our own kernels on tensor cores ("tensor" says the same)
//	"exact"  by the definition of package ref, on the fp32 units; attention as well
//	"mma"    beside them: attention and our own products by mma.sync on Hopper as well, where they are by wgmma otherwise
//	"trial"  beside them: kernels for Hopper that no device has run yet, and that change no bit
//	"wait"   waits after each launch, so that an error names its operation
//	"times"  takes each kernel's time (profile.go); kernels are apart
//	"apart"  each kernel starts when the one before has ended; otherwise it may start beside the end (after_others of
//	         src/device.h)
const ModeVariable = "DARKROOM_CUDA"

type mode struct {
	products string // "", lt, own, exact
	wait     bool
	mma      bool // no kernels for Hopper
	trial    bool // those on trial
	apart    bool // kernels start one after another
	times    bool // by kernel
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
		case "trial":
			m.trial = true
			continue
		case "apart":
			m.apart = true
			continue
		case "times":
			m.times, m.apart = true, true
			continue
		case "tensor":
			word = "own"
		case "lt", "own", "exact":
		default:
			return m, fmt.Errorf("%s=%s: it is made of lt, own or exact, and wait, mma, trial, apart, times", ModeVariable, s)
		}
		if m.products != "" && m.products != word {
			return m, fmt.Errorf("%s=%s: one of lt, own and exact", ModeVariable, s)
		}
		m.products = word
	}
	return m, nil
}

// beginProducts opens cuBLASLt where it is wanted. On a Hopper it is not. 250 products of two layouts were timed (m
// from 64 to 8192, sides from 1536 to 152064; LOG.md): our own by the best of the tiles, the library's with the launch
// of its epilogue, neither with an activation. Our own took less time for 241, the library 1.65 times as long on the
// geometric mean, and at most 7 % less for the others.
// So one rule serves all shapes, and a row's bits do not depend on which others there are.
func (b *Backend) beginProducts(version int) (err error) {
	b.version = version
	if b.mode.products == "" && b.hopper.products.use {
		b.without = ownInstead
		return nil
	}
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

// ownInstead is why the library is not opened where it could be.
const ownInstead = "our own products by wgmma need less time; " + ModeVariable + "=lt asks for the library"

// libraryAfterAll opens the library for work that was begun with it.
func (b *Backend) libraryAfterAll() (err error) {
	b.must("Choose", func() error {
		if b.products, err = b.openLibraryProducts(b.version); err == nil {
			b.without = ""
		}
		return nil
	})
	return err
}
