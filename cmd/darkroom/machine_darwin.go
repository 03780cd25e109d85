package main

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// cpuModel is the CPU's name as the system tells it.
func cpuModel() string {
	s, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return "unknown CPU"
	}
	return s
}

func memory() memoryInfo {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return memoryInfo{}
	}
	return memoryInfo{Total: n}
}

// peakMiB is the most memory that was ever resident.
func peakMiB() int {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return int(u.Maxrss >> 20) // bytes here
}

// resetPeak gives unused memory back to the system; its peak cannot be started anew.
func resetPeak() { debug.FreeOSMemory() }
