//go:build !linux && !darwin

package main

import (
	"cmp"
	"os"
)

// cpuModel is the CPU's name as the system tells it.
func cpuModel() string {
	return cmp.Or(os.Getenv("PROCESSOR_IDENTIFIER"), "unknown CPU")
}

func memory() memoryInfo { return memoryInfo{} }
