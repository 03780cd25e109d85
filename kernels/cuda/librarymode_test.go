//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
)

// TestHopperWithoutLibrary: a Hopper's products are our own, though cuBLASLt is there, unless it is asked for or
// the work was begun with it.
func TestHopperWithoutLibrary(t *testing.T) {
	c := newProducts(t)
	c.Set(13000, 1, 90, 2<<30)
	multiply := func(r *rig) []byte {
		r.r = rand.New(rand.NewPCG(1, 2))
		return r.linear(r.mat(kernels.BF16, 70, 136, 136, 0), r.Pack(r.mat(kernels.BF16, 72, 136, 136, 0), kernels.MathBF16), false)
	}
	t.Setenv(cuda.ModeVariable, "lt")
	library := openLibraryRig(t)
	want := multiply(library)
	record, _, err := library.Choices()
	if err != nil || library.LibraryCalls() == 0 {
		t.Fatal(library.LibraryCalls(), err)
	}
	t.Setenv(cuda.ModeVariable, "")
	r := openRig(t)
	if !strings.Contains(r.String(), "by our own kernels") {
		t.Fatal(r)
	}
	if got := multiply(r); bytes.Equal(got, want) {
		t.Error("our own kernels have the library's bits: this test shows nothing")
	}
	r = openRig(t)
	if err := r.Choose(record); err != nil {
		t.Fatal(err)
	}
	if got := multiply(r); !bytes.Equal(got, want) {
		t.Error("work that was begun with the library goes on with other bits")
	}
}
