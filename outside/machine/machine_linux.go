package machine

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// CPUModel is the CPU's name as the system tells it.
func CPUModel() string {
	return field("/proc/cpuinfo", "model name", "unknown CPU")
}

// Microcode is the version of the CPU's microcode as the system tells it; "" where it does not.
func Microcode() string { return field("/proc/cpuinfo", "microcode", "") }

// Memory is the machine's, as far as the system tells.
func Memory() RAM {
	kib := func(key string) uint64 {
		s := strings.TrimSuffix(field("/proc/meminfo", key, ""), " kB")
		n, err := strconv.ParseUint(s, 10, 54)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return RAM{Total: kib("MemTotal"), Available: kib("MemAvailable")}
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

// PeakMiB is the most memory that was resident since ResetPeak.
func PeakMiB() int {
	n, err := strconv.Atoi(strings.TrimSuffix(field("/proc/self/status", "VmHWM", ""), " kB"))
	if err != nil {
		return 0
	}
	return n >> 10
}

// ResetPeak gives unused memory back to the system and starts the peak anew, where the
// system lets it.
func ResetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}
