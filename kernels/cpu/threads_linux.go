package cpu

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func fastCores() int { return fastCoresOf(os.DirFS("/sys/devices/system/cpu")) }

// fastCoresOf counts the cores that have more than half of the fastest one's capacity, as Linux says
// it where cores differ; 0 where it says nothing.
func fastCoresOf(cpus fs.FS) int {
	names, _ := fs.Glob(cpus, "cpu[0-9]*/cpu_capacity")
	var all []int
	most := 0
	for _, name := range names {
		text, err := fs.ReadFile(cpus, name)
		if err != nil {
			continue
		}
		if c, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			all, most = append(all, c), max(most, c)
		}
	}
	fast := 0
	for _, c := range all {
		if 2*c > most {
			fast++
		}
	}
	return fast
}

// patience is how long an idle worker looks before it parks. In the quickstart the caller works alone for 40 us, on
// average, between two operations.
const patience = 250 * time.Microsecond

// yield lets other programs run, where any wait for this processor.
func yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
