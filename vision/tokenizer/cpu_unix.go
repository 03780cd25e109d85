//go:build unix

package tokenizer

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what all threads of the process have had.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
