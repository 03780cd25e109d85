//go:build !linux && !darwin && !windows

package folder

// freeBytes is not known here.
func freeBytes(string) (int64, bool) { return 0, false }
