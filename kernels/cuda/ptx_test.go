//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/emulators/ptxtest"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// More cases of the tests below, and fewer operations (make ptx).
var (
	ptxMillions = flag.Float64("ptx", 0, "millions of instructions of warps for each operation; 0: a few, and no Hopper")
	ptxOnly     = flag.String("ptx-only", "", "operations, with commas between; none: all")
)

// TestPTXExact holds the PTX that ships to ref, bit for bit.
func TestPTXExact(t *testing.T) {
	interpret(t, 80, "exact", func(kerneltest.Case) float64 { return 0 })
}

// TestPTXTensorCores holds products and attention by mma.sync near to ref.
func TestPTXTensorCores(t *testing.T) { interpret(t, 80, "own", nearOnTensorCores) }

// interpret runs the first cases of every operation on interpreted PTX, and says what that covers.
func interpret(t *testing.T, capability int, mode string, near func(kerneltest.Case) float64) {
	if testing.Short() {
		t.Skip("the image takes half a second to unpack")
	}
	millions := *ptxMillions
	if millions == 0 {
		millions = 0.03
	}
	d := ptxtest.New(capability)
	b, err := cuda.OpenOn(d, mode)
	if err != nil {
		t.Fatal(err, d.Last)
	}
	defer b.Close()
	if hopper := capability == 90; b.HopperRuns() != hopper || b.HopperMultiplies() != hopper {
		t.Fatalf("compute capability %d: %v; %v", capability, b, d.Last)
	}
	spent, ran, all := map[string]uint64{}, map[string]int{}, map[string]int{}
	last, before := "", d.Ran()
	only := *ptxOnly
	kerneltest.RunNear(t, b, func(c kerneltest.Case) float64 {
		spent[last], before = spent[last]+d.Ran()-before, d.Ran()
		if d.Last != nil {
			t.Error(d.Last)
		}
		d.Again()
		tolerance := near(c)
		if tolerance < 0 {
			return tolerance
		}
		all[c.Op]++
		asked := only == "" || slices.Contains(strings.Split(only, ","), c.Op)
		if !asked || float64(spent[c.Op]) > millions*1e6 {
			return -1
		}
		last = c.Op
		ran[c.Op]++
		return tolerance
	})
	if d.Last != nil {
		t.Error(d.Last)
	}
	report(t, d, ran, all)
}

// report says how many cases have run, and which of the kernels' instructions.
func report(t *testing.T, d *ptxtest.Device, ran, all map[string]int) {
	var cases []string
	n, of := 0, 0
	for _, op := range slices.Sorted(maps.Keys(all)) {
		n, of = n+ran[op], of+all[op]
		cases = append(cases, fmt.Sprintf("%s %d/%d", op, ran[op], all[op]))
	}
	names, places, have := 0, [2]int{}, d.Coverage()
	var missed []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		c := have[name]
		places[0], places[1] = places[0]+c[0], places[1]+c[1]
		if c[0] > 0 {
			names++
		} else {
			missed = append(missed, name)
		}
	}
	t.Logf("%d of %d cases (%s)", n, of, strings.Join(cases, ", "))
	t.Logf("%d kernels; %d of %d instructions by name, %d of %d places; %.1f million instructions of warps",
		len(d.Kernels()), names, len(have), places[0], places[1], float64(d.Ran())/1e6)
	t.Logf("not run: %s", strings.Join(missed, " "))
}

// TestPTXHopper holds products and attention by wgmma, which the copy engine feeds, near to ref.
func TestPTXHopper(t *testing.T) {
	if *ptxMillions == 0 {
		t.Skip("a Hopper compares its kernels when it opens, eight seconds of a CPU: make ptx")
	}
	interpret(t, 90, "own", nearOnTensorCores)
}
