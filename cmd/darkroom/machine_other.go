//go:build !linux && !darwin

package main

import (
	"cmp"
	"os"
	"runtime/debug"
)

// cpuModel is the CPU's name as the system tells it.
func cpuModel() string {
	return cmp.Or(os.Getenv("PROCESSOR_IDENTIFIER"), "unknown CPU")
}

func memory() memoryInfo { return memoryInfo{} }

// peakMiB is not known here.
func peakMiB() int { return 0 }

func resetPeak() { debug.FreeOSMemory() }
