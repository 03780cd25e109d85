package pictures_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/internal/rigs/brief"
	"github.com/darkroom-rl/darkroom/sde"
)

// ladder is a recorded Stable Diffusion, for solvers of variance-preserving models.
var ladder = filepath.Join(golden.Folder("models"), "pipe_sd15")

// TestRatioIsOne: for every solver that draws and is judged, with guidance and some without, in passes of
// one and of eight, the ratios of the first update with an adapter are exactly 1, and weights have the
// same bytes after it.
func TestRatioIsOne(t *testing.T) {
	if testing.Short() {
		t.Skip("trains with every solver: a minute without assembly; left out by -short, which keeps TestRatioOfFamilies")
	}
	tried := 0
	for _, s := range sde.Solvers() {
		if !s.Stochastic || !s.Density || s.History { // those that look back cannot be judged alone
			continue
		}
		tried++
		of, noise, prediction := network{tiny(t), brief.Side, 0}, 0.7, sde.Prediction("")
		outside := sde.Euler
		if s.VP {
			of, noise, prediction = network{ladder, 32, 0}, 1, sde.Epsilon
			outside = func(t sde.Schedule, step int) sde.Row {
				r, err := sde.DDIM(t, step, 0, sde.Epsilon, false)
				if err != nil {
					panic(err) // a prediction that is known
				}
				return r
			}
		}
		keys := many()
		scales := []float64{3}
		if s.Name == "flow-sde" || s.VP { // guidance is the network's matter, and not the solver's
			scales = []float64{1, 3}
		}
		for _, guidance := range scales {
			var first []byte
			for _, micro := range []int{1, 8} {
				p := painterOf(t, of, pipeline.BF16, guidance, s.Step(noise, prediction), outside)
				p.Micro = micro
				ratios, final := iterate(t, p, keys, 1)
				for i, all := range ratios {
					if len(all) != len(keys)*len(window) {
						t.Fatalf("%s: iteration %d has %d ratios", s.Name, i, len(all))
					}
					for _, r := range all {
						if r != 1 {
							t.Fatalf("%s, guidance %v, passes of %d, iteration %d: ratios %v", s.Name, guidance, micro, i, all)
						}
					}
				}
				if first == nil {
					first = final
				} else if !bytes.Equal(first, final) {
					t.Errorf("%s, guidance %v: passes of %d make other weights", s.Name, guidance, micro)
				}
				p.Free()
			}
		}
	}
	if tried < 6 {
		t.Errorf("%d solvers were tried", tried)
	}
}
