package cpu

import "golang.org/x/sys/unix"

// fastCores are the cores of the first level of performance; 0 on a Mac that has no levels.
func fastCores() int {
	n, err := unix.SysctlUint32("hw.perflevel0.logicalcpu")
	if err != nil {
		return 0
	}
	return int(n)
}
