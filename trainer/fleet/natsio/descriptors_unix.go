//go:build unix && !nobroker

package natsio

import "syscall"

// descriptors is how many this process may have at once; 0: nobody says.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}
