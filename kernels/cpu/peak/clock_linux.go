package peak

import (
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime is the time that this thread has been running: on a machine with
// other work, waiting for a core does not count. The caller locks its thread.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("peak: the thread's clock: " + err.Error()) // every Linux has it
	}
	return time.Duration(t.Nano())
}
