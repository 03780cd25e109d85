package folder

import "golang.org/x/sys/windows"

// freeBytes returns the bytes free on the disk of a folder.
func freeBytes(dir string) (int64, bool) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return int64(min(free, 1<<62)), err == nil
}
