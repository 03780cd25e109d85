package experiment

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is run.memory; 0 where nothing is said.
func (run Run) Bytes() int64 {
	n, _ := run.bytes() // refused when the file was read
	return n
}

// bytes reads run.memory.
func (run Run) bytes() (int64, error) {
	if run.Memory == "" {
		return 0, nil
	}
	for _, u := range []struct {
		name string
		of   float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}} {
		number, ok := strings.CutSuffix(run.Memory, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if all := n * u.of; err == nil && all >= 1<<20 && all < math.MaxInt64/2 {
			return int64(all), nil
		}
	}
	return 0, fmt.Errorf("%q is no amount of memory, of one MiB at least", run.Memory)
}
