//go:build unix

package spent

import (
	"time"

	"golang.org/x/sys/unix"
)

// Known says whether the system counts it.
const Known = true

// CPU is the time that all threads have computed.
func CPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
