package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// cpuModel is the CPU's name as the system tells it.
func cpuModel() string {
	return field("/proc/cpuinfo", "model name", "unknown CPU")
}

func memory() memoryInfo {
	kib := func(key string) uint64 {
		s := strings.TrimSuffix(field("/proc/meminfo", key, ""), " kB")
		n, err := strconv.ParseUint(s, 10, 54)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return memoryInfo{Total: kib("MemTotal"), Available: kib("MemAvailable")}
}

// field finds the first line "key : value" of a file of the proc file system.
func field(file, key, otherwise string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return otherwise
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return otherwise
}

// peakMiB is the most memory that was resident since resetPeak.
func peakMiB() int {
	n, err := strconv.Atoi(strings.TrimSuffix(field("/proc/self/status", "VmHWM", ""), " kB"))
	if err != nil {
		return 0
	}
	return n >> 10
}

// resetPeak gives unused memory back to the system and starts the peak anew, where the
// system lets it.
func resetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}
