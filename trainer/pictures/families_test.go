package pictures_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/sde"
)

// TestRatioOfFamilies: texts of one batch have lengths of their own, and guidance keeps the conditional output's
// length (Qwen-Image); a sign is turned, and samples go through the network one by one (Z-Image). The ratios of the
// first update with an adapter are exactly 1 all the same,
// and weights have the same bytes in passes of one and of eight.
func TestRatioOfFamilies(t *testing.T) {
	for name, tokens := range map[string]int{"pipe_qwen_image": 0, "pipe_z_image": 0, "pipe_flux2_klein": 24, "pipe_flux_kontext": 24} { // and not 512
		t.Run(name, func(t *testing.T) {
			of := network{filepath.Join(golden.Folder("models"), name), 32, tokens}
			keys := many()
			var first []byte
			for _, micro := range []int{1, 8} {
				p := painterOf(t, of, pipeline.BF16, 3, func(s sde.Schedule, step int) sde.Row { return sde.FlowSDE(s, step, 0.7, 0) }, sde.Euler)
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
