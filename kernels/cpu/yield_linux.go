package cpu

import (
	"syscall"
	"time"
)

// patience is how long an idle worker looks before it parks. In the quickstart the caller works alone for 40 us, on
// average, between two operations.
const patience = 250 * time.Microsecond

// yield lets other programs run, where any wait for this processor.
func yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
