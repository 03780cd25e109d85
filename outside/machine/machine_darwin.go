package machine

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// CPUModel is the CPU's name as the system tells it.
func CPUModel() string {
	s, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return "unknown CPU"
	}
	return s
}

// Microcode is not known here.
func Microcode() string { return "" }

// Memory is the machine's, as far as the system tells.
func Memory() RAM {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return RAM{}
	}
	return RAM{Total: n}
}

// PeakMiB is the most memory that was ever resident.
func PeakMiB() int {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return int(u.Maxrss >> 20) // bytes here
}

// ResetPeak gives unused memory back to the system; its peak cannot be started anew.
func ResetPeak() { debug.FreeOSMemory() }
