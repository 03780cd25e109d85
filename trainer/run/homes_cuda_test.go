//go:build !nocuda && linux && (amd64 || arm64)

package run

import (
	"strconv"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
)

// TestHomesOfDevices: on devices, matrices in pinned memory or in shares of the devices leave the bytes of matrices
// that are kept. Never more is resident than the ring, every copy is waited for, and nothing is copied back: the double
// counts.
func TestHomesOfDevices(t *testing.T) {
	if testing.Short() || !*long {
		t.Skip("trains six times on the driver's mock, in minutes; -long does (TestStock of kernels/nn is a network alone)")
	}
	c := double.New(t)
	for _, sets := range [][]string{nil, {"model.quantize=nf4"}} {
		var want map[string][]byte
		for _, home := range []string{"device", "host", "ranks"} {
			c.Set(13000, 2, 80, 1<<30)
			dir := t.TempDir()
			e := homed()["tiny-sd3"](t, append(sets, "run.device=cuda:0,cuda:1", "run.iterations=1", "sampler.steps=3", "rollout.group=2",
				"rollout.prompts_per_iteration=1", "loss.noise_floor=off", "evaluate.every=0", "evaluate.samples=1", "model.home="+home)...)
			o := Options{Dir: dir, Logf: t.Logf}
			for i := range 2 {
				be, err := cuda.OpenAs(i, "exact")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { be.Close() })
				if i == 0 {
					o.Backend = be
				} else {
					o.Further = []kernels.Backend{be}
				}
			}
			if _, err := Run(t.Context(), e, o); err != nil {
				t.Fatal(err)
			}
			for d := range double.TooMany + 1 {
				if n := c.Disorders(d); n > 0 {
					t.Errorf("home = %s: disorder %s, %d times", home, strconv.Itoa(int(d)), n)
				}
			}
			if got := contents(t, dir); want == nil {
				want = got
			} else {
				same(t, "home = "+home, got, want)
			}
		}
	}
}
