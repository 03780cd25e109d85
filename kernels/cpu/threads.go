package cpu

import (
	"os"
	"runtime"
)

// Threads is how many threads compute where nobody says: as many as Go may use, but no more than the CPU has fast
// cores. A task on a slow core keeps the others waiting at the end of each operation. GOMAXPROCS, where it is set,
// decides.
func Threads() int {
	return threads(runtime.GOMAXPROCS(0), fastCores(), os.Getenv("GOMAXPROCS") != "")
}

func threads(allowed, fast int, asked bool) int {
	if asked || fast == 0 {
		return allowed
	}
	return min(allowed, fast)
}
