//go:build !nocuda && linux && (amd64 || arm64)

package device

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// TestVerify: a card of a kind that nobody has verified is taken by "auto" once the suite passed on it, by this program
// under this driver; one that failed is not, whatever its kind.
func TestVerify(t *testing.T) {
	c := double.New(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // the double itself lies in the usual one
	c.Set(13000, 1, 120, 1<<30)
	auto := func(when, want string) {
		t.Helper()
		if got := Settle("auto"); got != want {
			t.Errorf("%s: auto is %s, want %s", when, got, want)
		}
	}
	auto("before", "cpu")
	wrong := kerneltest.Case{Op: "Wrong", Name: "on a card", Run: func(e *kerneltest.Env) {
		x := float32(1)
		if strings.HasPrefix(e.B.Name(), "cuda") {
			x = 2
		}
		e.Out("x", e.Values(kernels.F32, []float32{x}))
	}}
	told := -1
	r := cuda.Probe()
	v, err := Verify(r.Devices[0], r.Driver, append(some("Rope/1/f32/160"), wrong), func(done, all int) { told = all - done })
	if err != nil {
		t.Fatal(err)
	}
	if exact := v.Modes[0]; v.Passed() || exact.Cases != 2 || len(exact.Failed) != 1 || !strings.Contains(exact.Failed[0], "Wrong/on a card") || told != 0 {
		t.Errorf("%+v, with %d cases to go", v, told)
	}
	keep := func(v Verification) {
		t.Helper()
		if _, err := v.Keep(); err != nil {
			t.Fatal(err)
		}
	}
	keep(v)
	auto("failed", "cpu")
	v.Modes[0].Failed = nil
	if !v.Passed() {
		t.Errorf("%+v", v)
	}
	keep(v)
	auto("verified since", "cuda:0")
	c.Set(12080, 1, 120, 1<<30)
	auto("under another driver", "cpu")

	c.Set(13000, 1, 90, 1<<30)
	auto("a Hopper", "cuda:0")
	r = cuda.Probe()
	if v, err = verification(r.Devices[0], r.Driver); err != nil {
		t.Fatal(err)
	}
	v.Modes = []Mode{{Name: "exact", Cases: 2, Failed: []string{"one"}}}
	keep(v)
	auto("a Hopper that failed", "cpu")
	if err := os.RemoveAll(os.Getenv("XDG_CACHE_HOME")); err != nil {
		t.Fatal(err)
	}
	auto("a Hopper without a record", "cuda:0")
}

// some are the suite's cases whose names begin so.
func some(prefixes ...string) (cases []kerneltest.Case) {
	for _, c := range kerneltest.Cases() {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(c.Op+"/"+c.Name, p) }) {
			cases = append(cases, c)
		}
	}
	return cases
}
