//go:build !linux && !darwin

package machine

import (
	"cmp"
	"os"
	"runtime/debug"
)

// CPUModel is the CPU's name as the system tells it.
func CPUModel() string {
	return cmp.Or(os.Getenv("PROCESSOR_IDENTIFIER"), "unknown CPU")
}

// Microcode is not known here.
func Microcode() string { return "" }

// Memory is the machine's, as far as the system tells.
func Memory() RAM { return RAM{} }

// PeakMiB is not known here.
func PeakMiB() int { return 0 }

// ResetPeak gives unused memory back to the system.
func ResetPeak() { debug.FreeOSMemory() }
