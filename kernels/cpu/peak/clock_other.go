//go:build !linux

package peak

import "time"

var start = time.Now()

// threadTime is wall time: only Linux's clock of a thread is known here.
func threadTime() time.Duration { return time.Since(start) }
