//go:build linux || darwin

package folder

import "syscall"

// freeBytes returns the bytes free on the disk of a folder.
func freeBytes(dir string) (int64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
