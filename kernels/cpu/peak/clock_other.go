//go:build !linux

package peak

import "time"

var start = time.Now()

// ThreadTime is wall time: only Linux's clock of a thread is known here.
func ThreadTime() time.Duration { return time.Since(start) }
