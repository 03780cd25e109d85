//go:build unix

package main

import "golang.org/x/sys/unix"

// cpuSeconds are those of all threads since the process began.
func cpuSeconds() float64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
