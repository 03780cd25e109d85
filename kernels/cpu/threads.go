package cpu

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// Threads is how many threads compute where nobody says: as many as Go may use, but no more than the CPU has fast
// cores. A task on a slow core keeps the others waiting at the end of each operation. GOMAXPROCS, where it is set,
// decides.
func Threads() int {
	return threads(runtime.GOMAXPROCS(0)-int(spare.Load()), fastCores(), os.Getenv("GOMAXPROCS") != "")
}

func threads(allowed, fast int, asked bool) int {
	if asked || fast == 0 {
		return allowed
	}
	return min(allowed, fast)
}

// Spare gives the program one of Go's threads beside those that compute. Without it a message waits for up to 10 ms at
// each goroutine that passes it on, until Go interrupts a computing one; the system lets a thread that slept run at
// once.
func Spare() {
	spared.Do(func() {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
		spare.Store(1)
	})
}

var (
	spare  atomic.Int32 // of Go's threads
	spared sync.Once
)
