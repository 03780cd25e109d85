package main

import "golang.org/x/sys/unix"

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
