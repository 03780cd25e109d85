//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// TestConformance holds every operation to ref, bit for bit, on the double of the driver.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole suite on one thread of the host")
	}
	double.Library(t)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	kerneltest.Run(t, b)
}
