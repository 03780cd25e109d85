//go:build !unix

package tokenizer

import "time"

var started = time.Now()

// cpuTime is the time on the clock, so that no process counts as starved.
func cpuTime() time.Duration { return time.Since(started) }
