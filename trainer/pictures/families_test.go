package pictures_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/sde"
)

// TestRatioOfFamilies: texts of one batch have lengths of their own, and guidance keeps the conditional output's
// length (Qwen-Image); a sign is turned, and samples go through the network one by one (Z-Image). The ratios of the
// first update with an adapter are exactly 1 all the same, and weights have the same bytes in passes of one and of eight.
func TestRatioOfFamilies(t *testing.T) {
	if testing.Short() {
		t.Skip("trains four models: minutes on a CPU without AVX-512, and half an hour under the race detector; left out by -short")
	}
	for _, name := range []string{"pipe_qwen_image", "pipe_z_image", "pipe_flux2_klein", "pipe_flux_kontext"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("..", "..", "cmd", "parity", "testdata", "golden", "models", name)
			keys := many()
			var first []byte
			for _, micro := range []int{1, 8} {
				p := painterOf(t, dir, 32, pipeline.BF16, 3, func(s sde.Schedule, step int) sde.Row { return sde.FlowSDE(s, step, 0.7, 0) }, sde.Euler)
				p.Micro, p.Guidance.Norm = micro, p.Pipeline.Defaults().Norm
				ratios, final := iterate(t, p, keys, 1)
				if len(ratios[0]) != len(keys)*len(window) {
					t.Fatalf("%d ratios", len(ratios[0]))
				}
				for _, r := range ratios[0] {
					if r != 1 {
						t.Fatalf("passes of %d: ratios %v", micro, ratios[0])
					}
				}
				if first == nil {
					first = final
				} else if !bytes.Equal(first, final) {
					t.Errorf("passes of %d make other weights", micro)
				}
				p.Free()
			}
		})
	}
}
