package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// spent is what something took.
type spent struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"` // of all threads
	PeakMiB    int     `json:"peak_mib"`    // of the whole process meanwhile; 0: the system does not say
}

// best is the least that f took, of several times.
func best(times int, f func() error) (b spent, err error) {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew where the system can
	for i := range max(1, times) {
		began, used := time.Now(), cpuSeconds()
		if err := f(); err != nil {
			return b, err
		}
		seconds, cpu := time.Since(began).Seconds(), cpuSeconds()-used
		if i == 0 || cpu < b.CPUSeconds {
			b.CPUSeconds = cpu
		}
		if i == 0 || seconds < b.Seconds {
			b.Seconds = seconds
		}
	}
	b.PeakMiB = peak()
	return b, nil
}

// peak is the most memory that was resident, in MiB.
func peak() (mib int) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if _, err := fmt.Sscanf(string(line), "VmHWM: %d kB", &mib); err == nil {
			return mib / 1024
		}
	}
	return 0
}
