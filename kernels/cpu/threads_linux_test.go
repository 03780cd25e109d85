package cpu

import (
	"fmt"
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
