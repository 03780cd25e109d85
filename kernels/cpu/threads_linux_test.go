package cpu

import (
	"fmt"
	"runtime"
	"testing"
	"testing/fstest"
)

func TestFastCores(t *testing.T) {
	for _, c := range []struct {
		capacities []string
		want       int
	}{
		{nil, 0},
		{[]string{"1024\n", "1024\n"}, 2},
		{[]string{"381\n", "381\n", "381\n", "381\n", "922\n", "922\n", "922\n", "1024\n"}, 4}, // a phone's
		{[]string{"1024\n", "nonsense\n"}, 1},
	} {
		cpus := fstest.MapFS{"possible": {Data: []byte("0-7\n")}}
		for i, s := range c.capacities {
			cpus[fmt.Sprintf("cpu%d/cpu_capacity", i)] = &fstest.MapFile{Data: []byte(s)}
		}
		if got := fastCoresOf(cpus); got != c.want {
			t.Errorf("%q: %d fast cores, want %d", c.capacities, got, c.want)
		}
	}
}

func TestThreads(t *testing.T) {
	for _, c := range []struct {
		allowed, fast int
		asked         bool
		want          int
	}{{8, 0, false, 8}, {10, 8, false, 8}, {4, 8, false, 4}, {10, 8, true, 10}} {
		if got := threads(c.allowed, c.fast, c.asked); got != c.want {
			t.Errorf("%+v: %d threads", c, got)
		}
	}
}

// TestSpare: as many threads compute with a spare one as without.
func TestSpare(t *testing.T) {
	allowed, all := runtime.GOMAXPROCS(0)-int(spare.Load()), Threads()
	Spare()
	Spare() // once is enough
	if got := runtime.GOMAXPROCS(0); got != allowed+1 || Threads() != all {
		t.Errorf("%d of Go's threads, of which %d compute; there were %d and %d", got, Threads(), allowed, all)
	}
}
