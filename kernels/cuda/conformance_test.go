//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// TestTensorCores holds the kernels of the fast path, products and attention of bf16, near to ref:
// their sums are in the tensor cores' order.
func TestTensorCores(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite on one thread of the host")
	}
	double.Library(t)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	kerneltest.RunNear(t, b, kerneltest.TensorCores)
}

// TestConformance holds every operation to ref, bit for bit, on the double of the driver.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite on one thread of the host")
	}
	double.Library(t)
	t.Setenv(cuda.ModeVariable, "exact")
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	kerneltest.Run(t, b)
}

// TestHardware runs the suite on a device, where the machine has one: in exact mode, on tensor cores by our own
// kernels, with those for Hopper (by name and by default) and without, and with products by cuBLASLt where it opens.
func TestHardware(t *testing.T) {
	r := cuda.Probe()
	if r.Missing != "" {
		t.Skip("no device: " + r.Missing)
	}
	for _, mode := range []string{"exact", "own,mma", "own", "own,trial", "lt"} {
		t.Run(mode, func(t *testing.T) {
			t.Setenv(cuda.ModeVariable, mode)
			b, err := cuda.Open(0)
			if mode == "lt" && err != nil {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			t.Log(b)
			if mode == "lt" {
				b.SetLibrary(8, 2048)
				defer func() {
					record, _, err := b.Choices()
					t.Logf("%d products by the library; %s, %v", b.LibraryCalls(), record, err)
				}()
			}
			if mode == "exact" {
				kerneltest.Run(t, b)
				return
			}
			r := &rig{b, t, rand.New(rand.NewPCG(1, 2))}
			testAttentionBits(r)
			testQueryAlone(r)
			testFewQueries(r)
			if b.HopperMultiplies() && mode != "lt" { // there the library computes them, from gathered operands
				testHopperProductBits(r)
				testHopperActivations(r)
				testHopperGates(r)
			}
			if b.HopperGradients() {
				testHopperGradientBits(r)
				plain, err := cuda.OpenAs(0, "own")
				if err != nil {
					t.Fatal(err)
				}
				defer plain.Close()
				testHopperTrial(&rig{plain, t, nil}, r)
			}
			kerneltest.RunNear(t, b, kerneltest.TensorCores)
		})
	}
}
